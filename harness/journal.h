/* The journal: one JSON record a line, on disk (fsync) before the run goes on. A killed run loses at most the round
 * under way; --resume reads it back. It lies beside the result, as FILE.journal, until the result is written. */
#pragma once

#include "outcome.h"

typedef struct as_journal {
    int fd;            /* -1: closed */
    char *path;        /* FILE.journal */
    char *result_path; /* FILE */
    uint64_t lines;    /* written so far, the header too: a line's `seq` is its number */
    int64_t spent_ns;  /* of the budget, by the processes before this one */
    int64_t opened_ns; /* when this one opened it; each line says what was spent until then */
    char *references;  /* FILE.references: folder that the launches share; gone with the run; NULL: none */
} as_journal;

/* Checks that the result can be written (a regular file or none, in a writable folder, with room), creates the journal
 * and writes its header. AS_EENV for an unwritable or full place, AS_EUSAGE where an unfinished run's journal lies. */
as_status as_journal_create(as_journal *j, const char *result_path, const struct json_t *header,
                            as_error *e) AS_MUST_CHECK;

/* Reads the header of the journal that `path` names (the journal itself or its result). New object. */
as_status as_journal_header(const char *path, struct json_t **header, as_error *e) AS_MUST_CHECK;
/* Reopens for appending and applies every record; a torn last line is cut off. AS_EUSAGE, naming the line, for one that
 * is damaged, edited, missing or moved, and for another plan's or an older build's journal. */
as_status as_journal_resume(as_journal *j, const char *path, as_run_state *state, as_error *e) AS_MUST_CHECK;

/* Appends, syncs, then applies to `state`. */
as_status as_journal_record(as_journal *j, as_run_state *state, const struct json_t *record, as_error *e) AS_MUST_CHECK;

/* Writes `document` to the result's path by a temporary file and rename; removes the journal unless `keep`. */
as_status as_journal_finish(as_journal *j, const struct json_t *document, bool keep, as_error *e) AS_MUST_CHECK;
/* Makes the folder of shared references; where that fails the launches compute their own. Ends with the journal. */
void as_journal_share_references(as_journal *j);
void as_journal_free(as_journal *j);
