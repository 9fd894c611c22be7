#include "svc-converger/instance.h"

#include "svc-converger/trouble.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct instance *instance_new(const char *id)
{
	struct instance *instance = calloc(1, sizeof(*instance));

	if (!instance)
		return NULL;
	(void)snprintf(instance->id, sizeof(instance->id), "%s", id);
	return instance;
}

struct instance *instance_free(struct instance *instance)
{
	if (!instance)
		return NULL;
	instance_spec_free(instance->spec);
	free(instance->removal);
	instance_forgive(instance);
	instance_end_attempt(instance, NULL);
	free(instance->words);
	free(instance);
	return NULL;
}

void instance_end_attempt(struct instance *instance, struct admission *admission)
{
	struct attempt *attempt = instance->attempt;

	if (!attempt)
		return;
	if (attempt->is_charged && admission)
		admission_sub(admission, &attempt->charge);
	for (size_t i = 0; i < attempt->n_nics; i++)
		if (attempt->nics[i])
			bc__v1__prepared_nic__free_unpacked(attempt->nics[i], NULL);
	free(attempt->nics);
	free(attempt);
	instance->attempt = NULL;
}

void instance_forgive(struct instance *instance)
{
	instance->trouble = trouble_free(instance->trouble);
}

void instance_set_words(struct instance *instance, const char *words)
{
	if (instance->words && words && strcmp(instance->words, words) == 0)
		return;
	free(instance->words);
	instance->words = words && *words ? strdup(words) : NULL;
}
