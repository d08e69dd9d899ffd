import { fields } from './bad-input/fields.ts';
import { lists, others } from './bad-input/others.ts';
import type { BadRequest } from './bad-input/request.ts';
import { schedules } from './bad-input/schedules.ts';
import { transport } from './bad-input/transport.ts';

export { GOOD, WEEKEND } from './bad-input/request.ts';

/**
 * Malformed requests. Each is answered 4xx with a code and a field, and leaves jobs, topics and members as they are. The
 * same table runs over memory and over real servers. Before it stand one job `there` in cluster `default` (`GOOD`) and one
 * calendar `weekend` (`WEEKEND`).
 */
export const BAD_REQUESTS: readonly BadRequest[] = [...schedules, ...fields, ...transport, ...lists, ...others];
