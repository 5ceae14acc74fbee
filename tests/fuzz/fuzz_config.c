/* The training configuration (YAML). What is accepted must come back the same from its canonical text. */
#include "fuzz.h"

#include "config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dn_err err = {0};
    dn_config c, again;
    char *text, *text2;
    dn_status status = dn_config_parse(&c, (const char *)data, size, "fuzz", &err);
    FUZZ_SAYS(status, err);
    if (status != DN_OK) return 0;
    FUZZ_CHECK(dn_config_text(&c, &text, &err) == DN_OK);
    status = dn_config_parse(&again, text, strlen(text), "canonical", &err);
    if (status != DN_OK) fprintf(stderr, "%s\n%s", err.msg, text);
    FUZZ_CHECK(status == DN_OK);
    FUZZ_CHECK(dn_config_text(&again, &text2, &err) == DN_OK);
    FUZZ_CHECK(strcmp(text, text2) == 0);
    free(text);
    free(text2);
    return 0;
}
