/* Contract documents of every kind: read or refused with a sentence, and nothing else; what was read can be asked for. */
#include <rea/contract_document.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rea_contract_document document;
	struct rea_contract *contract;
	struct rea_error_info info;

	rea_contract_document_init(&document);
	document.text = (const char *)data;
	document.length = size;
	if (rea_contract_new(NULL, &contract) != 0)
		return 0;
	if (rea_contract_read(contract, &document, NULL, NULL, &info) != 0) {
		if (info.message[0] == '\0')
			abort();
	} else {
		rea_contract_finish(contract);
		for (size_t i = 0; i < rea_contract_count(contract); i++) {
			const struct rea_operation *operation = rea_contract_operation(contract, i);

			if (rea_contract_find_key(contract, operation->key, strlen(operation->key)) != operation)
				abort();
		}
	}
	rea_contract_free(contract);
	return 0;
}
