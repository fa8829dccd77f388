/* Whatever bytes are typed behind an option: it is taken or refused in one sentence, and what is taken keeps the
 * promise. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct options options = {0}, before;
	char sentence[512], *value;
	bool good;

	if (size == 0)
		return 0;
	value = malloc(size);
	if (value == NULL)
		return 0;
	memcpy(value, data + 1, size - 1);
	value[size - 1] = '\0';
	before = options;
	memset(sentence, 0x55, sizeof(sentence));
	good = options_take(&options, data[0] % 5, value, sentence, sizeof(sentence));
	if (!good && memcmp(&options, &before, sizeof(options)) != 0)
		abort();
	if (!good && (memchr(sentence, '\0', sizeof(sentence)) == NULL || sentence[0] == '\0'))
		abort();
	if (options.run[0] != '\0' && !text_is_path(options.run))
		abort();
	if (options.has_lead && options.lead_s > 604800)
		abort();
	if (good && options.continuation != CONTINUE_OFF && !options_in_force(&options))
		abort();
	free(value);
	return 0;
}
