import { type BadRequest, create, GOOD, job, patch, THERE } from './request.ts';

/** O-SC-03, O-SC-04. */
const KEYS: readonly unknown[] = [
  '',
  '.',
  '..',
  'x'.repeat(256),
  'y'.repeat(5_000),
  'a\u0007b',
  'a\r\nX-Evil: 1',
  5,
  null,
  ['a'],
  {},
];

/** Fields of jobs: keys, unknown and repeated names, values. */
export const fields: BadRequest[] = [
  ...KEYS.map((key) => create(`key ${JSON.stringify(key).slice(0, 30)} (O-SC-03)`, { ...GOOD, key }, 'key')),
  create('no key', GOOD, 'key'),
  create(
    'a key with an escaped NUL (O-SC-04)',
    '{"key":"a\\u0000b","schedule":{"kind":"cron","expression":"* * * * *"}}',
    'key',
    { code: 'request-malformed' },
  ),
  create(
    'half a surrogate pair in a key (O-SC-04)',
    '{"key":"\\ud800x","schedule":{"kind":"cron","expression":"* * * * *"}}',
    'key',
    { code: 'request-malformed' },
  ),
  create('NUL in a description (O-SC-04)', job({ description: 'a\u0000b' }), 'description', {
    code: 'request-malformed',
  }),
  create('an unknown field (O-AP-05)', job({ shedule: '* * * * *' }), 'shedule'),
  create('a read-only field (O-AP-05)', job({ version: 1 }), 'version'),
  create('a nested unknown field (O-AP-05)', job({ misfire: { mode: 'once', mod: 'x' } }), 'misfire.mod'),
  create(
    'a field twice (O-AP-05)',
    '{"key":"bad","key":"worse","schedule":{"kind":"cron","expression":"* * * * *"}}',
    'key',
    { code: 'request-malformed' },
  ),
  create(
    '__proto__ (O-SC-05)',
    '{"key":"bad","schedule":{"kind":"cron","expression":"* * * * *"},"__proto__":{"polluted":1}}',
    '__proto__',
  ),
  create(
    'constructor in labels (O-SC-05)',
    '{"key":"bad","schedule":{"kind":"cron","expression":"* * * * *"},"labels":{"constructor":{"prototype":{"p2":1}}}}',
    'labels.constructor',
  ),
  create('a label whose name is no name', job({ labels: { '-x': '1' } }), 'labels.-x'),
  create('a label that is a number', job({ labels: { x: 1 } }), 'labels.x'),
  create(
    '33 labels',
    job({ labels: Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`l${i}`, ''])) }),
    'labels',
  ),
  create('a misfire policy that is none', job({ misfire: { mode: 'never' } }), 'misfire.mode'),
  create('misfire limits below one', job({ misfire: { mode: 'all', maxNumber: 0 } }), 'misfire.maxNumber'),
  create('a media type with a line break (O-AP-02)', job({ contentType: 'text/plain\r\nX-Evil: 1' }), 'contentType'),
  create('a media type outside Latin-1 (O-AP-02)', job({ contentType: 'text/漢' }), 'contentType'),
  create('a payload of 257 KiB', job({ payload: 'x'.repeat(257 * 1024) }), 'payload', {
    status: 413,
    code: 'request-too-large',
  }),
  create('a long description', job({ description: 'x'.repeat(1_025) }), 'description'),
  create('a description with too many bytes', job({ description: '漢'.repeat(400) }), 'description'),
  create('a state that cannot be set', job({ state: 'terminated' }), 'state'),
  create('a list', [job({})], 'body'),
  create('null', 'null', 'body', { code: 'request-malformed' }),
  patch('a misspelt field (O-AP-05)', { shedule: '* * * * *' }, 'shedule'),
  patch('two unknown fields (O-AP-05)', { cron: '* * * * *', crn: 'x' }, /^cro?n$/),
  patch('the id (O-AP-05)', { id: 'other' }, 'id'),
  patch('the version (O-AP-05)', { version: 1 }, 'version'),
  patch('the next fire (O-AP-05)', { nextFireAt: 0 }, 'nextFireAt'),
  patch('the key', { key: 'other' }, 'key'),
  patch('null for the schedule', { schedule: null }, 'schedule'),
  patch('a member of another kind', { schedule: { everyMs: 1_000 } }, 'schedule.everyMs'),
  patch('an impossible expression (O-CR-14)', { schedule: { expression: '0 0 30 2 *' } }, 'schedule.expression', {
    code: 'schedule-impossible',
  }),
  patch('a zone that is none (O-CR-18)', { schedule: { zone: 'Mars/Phobos' } }, 'schedule.zone', {
    code: 'zone-unknown',
  }),
  patch('a list', [], 'body'),
  { ...create('another key in the body', job({}), 'key'), method: 'PUT', url: THERE },
  {
    ...create(
      'an impossible schedule (O-CR-14)',
      { schedule: { kind: 'cron', expression: '0 0 30 2 *' } },
      'schedule.expression',
      { code: 'schedule-impossible' },
    ),
    method: 'PUT',
    url: THERE,
  },
  { ...create('a body where none is taken', { now: true }, 'now'), url: `${THERE}/pause` },
  { ...create('a list where no body is taken', [1], 'body'), url: `${THERE}/fire` },
];
