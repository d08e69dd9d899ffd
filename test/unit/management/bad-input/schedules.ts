import { type BadRequest, create, cron, job, patch } from './request.ts';

/** One expression a line: a formatter keeps a text as it is. O-CR-17, O-CR-20. */
const EXPRESSIONS = `
*
* * *
* * * *
* * * * * * * *
0 0 1 1 * 2027 x
5x * * * *
1-2-3 * * * *
*/15junk * * * *
1, * * * *
1,,2 * * * *
-5 * * * *
+5 * * * *
1e1 * * * *
0x10 * * * *
0.5 * * * *
٥ * * * *
60 * * * *
0 24 * * *
0 0 0 * *
0 0 * 13 *
0 0 * * 8
*/0 * * * *
15/0 * * * * *
*/-1 * * * *
0 0 * * MONDAY
0 0 * * *;x
@reboot
@every 90m
@every -5m
@yearlyy
@ daily`.split('\n');
/** O-CR-14. */
const IMPOSSIBLE = [
  '0 0 30 2 *',
  '5 1 31 4 *',
  '0 0 31 2,4,6,9,11 *',
  '0 0 0 31W 6 ?',
  '0 0 0 ? 4 MON#6',
  '0 0 0 1 1 ? 1999',
];
/** JSON texts of periods that are refused. O-IV-03. */
const PERIODS = '0|-1|-0|0.4|1e-9|"NaN"|null|"5000"|" 1 day"|"every day"|9007199254740993|1e21|true|[]'.split('|');
/** O-CR-18. */
const ZONES = ['America/New_Yrok', 'Mars/Phobos', 'GMT+8', ' UTC', 'Etc/GMT+15', '../../etc/passwd', '', null];

/** Schedules that cannot be. */
export const schedules: BadRequest[] = [
  ...EXPRESSIONS.map((text) =>
    create(`cron ${JSON.stringify(text)} (O-CR-17, O-CR-20)`, cron(text), 'schedule.expression', {
      code: 'schedule-invalid',
    }),
  ),
  ...IMPOSSIBLE.map((text) =>
    create(`cron ${text} (O-CR-14)`, cron(text), 'schedule.expression', {
      code: 'schedule-invalid|schedule-impossible',
    }),
  ),
  create('cron with NUL (O-CR-17)', cron('* * * * *\u0000'), 'schedule.expression', { code: 'request-malformed' }),
  create('cron that is a number', cron(5), 'schedule.expression'),
  create('no expression', cron(undefined), 'schedule.expression'),
  ...PERIODS.map((text) =>
    create(`every ${text} (O-IV-03)`, `{"key":"bad","schedule":{"kind":"rate","everyMs":${text}}}`, 'schedule.everyMs'),
  ),
  create('every nothing (O-IV-03)', '{"key":"bad","schedule":{"kind":"rate"}}', 'schedule.everyMs'),
  // null takes the period away, and a rate without one is no schedule.
  ...PERIODS.map((text) =>
    patch(`every ${text} (O-IV-03)`, `{"schedule":{"kind":"rate","everyMs":${text}}}`, 'schedule.everyMs', {
      code: 'request-invalid|schedule-invalid',
    }),
  ),
  ...ZONES.map((zone) =>
    create(`zone ${JSON.stringify(zone)} (O-CR-18)`, cron('0 12 * * *', { zone }), 'schedule.zone', {
      code: 'zone-unknown|request-invalid',
    }),
  ),
  create('no schedule', { key: 'bad' }, 'schedule'),
  create('a schedule without a kind', { key: 'bad', schedule: {} }, 'schedule.kind'),
  create('a schedule of an unknown kind', { key: 'bad', schedule: { kind: 'sometimes' } }, 'schedule.kind'),
  create('a schedule that is a text', { key: 'bad', schedule: '* * * * *' }, 'schedule'),
  create(
    'a member of another kind',
    { key: 'bad', schedule: { kind: 'rate', everyMs: 1_000, expression: '* * * * *' } },
    'schedule.expression',
  ),
  create('a gap policy that is none', cron('0 2 * * *', { gap: 'explode' }), 'schedule.gap'),
  create('once without a time', { key: 'bad', schedule: { kind: 'once' } }, 'schedule.at'),
  create(
    'once without an offset',
    { key: 'bad', schedule: { kind: 'once', at: '2099-01-01T00:00:00' } },
    'schedule.at',
  ),
  create('once on 30 February', { key: 'bad', schedule: { kind: 'once', at: '2099-02-30T00:00:00Z' } }, 'schedule.at'),
  create('once in the past', { key: 'bad', schedule: { kind: 'once', at: '2001-01-01T00:00:00Z' } }, 'schedule.at', {
    code: 'schedule-impossible',
  }),
  create('a delay below nothing', { key: 'bad', schedule: { kind: 'delay', delayMs: -1 } }, 'schedule.delayMs'),
  create(
    'an anchor that is a number',
    { key: 'bad', schedule: { kind: 'rate', everyMs: 1_000, anchor: 0 } },
    'schedule.anchor',
  ),
  create('an end before the start', job({ start: '2099-01-02T00:00:00Z', end: '2099-01-01T00:00:00Z' }), 'end', {
    code: 'schedule-invalid',
  }),
  create('an end in the past', job({ end: '2001-01-01T00:00:00Z' }), /end|schedule/, { code: 'schedule-impossible' }),
  create('a maximum count of 0', job({ maxCount: 0 }), 'maxCount'),
  create(
    'a spread as wide as the period',
    { key: 'bad', schedule: { kind: 'rate', everyMs: 1_000 }, spreadMs: 1_000 },
    'spreadMs',
    { code: 'schedule-invalid' },
  ),
  create('a calendar that is not there', job({ calendars: ['nowhere'] }), 'calendars[0]', { code: 'calendar-unknown' }),
  create('nine calendars', job({ calendars: Array.from({ length: 9 }, (_, i) => `c${i}`) }), 'calendars'),
];
