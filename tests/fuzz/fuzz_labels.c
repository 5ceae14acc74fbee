/* Label files. First byte: bit 0 = regression labels, bit 1 = two ID columns. */
#include "fuzz.h"

#include "labels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const ids[][2] = {{"F1", "S1"}, {"F2", "S2"}, {"F2", "S1"}, {"0", "S3"}, {"0", "x"}};
    enum { N = sizeof ids / sizeof ids[0] };
    char path[256];
    dn_err err = {0};
    dn_people people = {0};
    dn_labels l = {0};
    if (size < 1) return 0;
    fuzz_file(path, "labels.tsv", data + 1, size - 1);
    for (int i = 0; i < N; i++) {
        FUZZ_CHECK(dn_strs_add(&people.fid, ids[i][0], strlen(ids[i][0]), &err) == DN_OK);
        FUZZ_CHECK(dn_strs_add(&people.iid, ids[i][1], strlen(ids[i][1]), &err) == DN_OK);
    }
    dn_status status = dn_labels_read(&l, path, data[0] & 1 ? DN_LABELS_TARGET : DN_LABELS_CLASS,
                                      data[0] & 2 ? 2 : 1, &people, NULL, &err);
    FUZZ_SAYS(status, err);
    if (status == DN_OK) {
        uint64_t labelled = 0;
        for (uint64_t i = 0; i < N; i++) {
            if (l.label) {
                FUZZ_CHECK(l.label[i] >= -1 && l.label[i] < (int64_t)l.class_names.n);
                labelled += l.label[i] >= 0;
            } else {
                FUZZ_CHECK(l.target[i] - l.target[i] == 0 || l.target[i] != l.target[i]);
                labelled += l.target[i] == l.target[i];
            }
        }
        FUZZ_CHECK(labelled == l.n_labelled && labelled + l.n_without == N);
    }
    dn_labels_free(&l);
    dn_people_free(&people);
    return 0;
}
