#include "lib/domain/state.h"

bool domain_state_is_up(Bc__V1__Domain__State state)
{
	switch (state) {
	case BC__V1__DOMAIN__STATE__RUNNING:
	case BC__V1__DOMAIN__STATE__PAUSED:
	case BC__V1__DOMAIN__STATE__STOPPING:
		return true;
	default:
		return false;
	}
}
