import { describe, expect, test } from 'vitest';
import { importKubernetes } from '../../../../src/sdk/import/kubernetes.ts';

const NOW_MS = Date.parse('2027-01-01T00:00:00Z');
const read = (text: string) => importKubernetes(text, { nowMs: NOW_MS });
const cronJob = (name: string, spec: string, more = '') => `apiVersion: batch/v1
kind: CronJob
metadata:
  name: ${name}
${more}spec:
${spec}
  jobTemplate:
    spec: { template: { spec: { containers: [{ name: c, image: "x:1" }], restartPolicy: Never } } }
`;

describe('Kubernetes CronJob manifests', () => {
  test('all that has a meaning here, and the rest in the payload and noted', () => {
    const { jobs, refused, notes } = read(
      cronJob(
        'report',
        `  schedule: "*/5 6 * * 1-5"
  timeZone: Europe/Madrid
  suspend: true
  startingDeadlineSeconds: 200
  concurrencyPolicy: Forbid
  successfulJobsHistoryLimit: 3`,
        '  namespace: billing\n  labels: { team: a }\n  uid: u-1\n  finalizers: [f]\n',
      ),
    );
    expect(refused).toEqual([]);
    expect(jobs).toEqual([
      {
        line: 1,
        form: {
          key: 'kubernetes/billing/report',
          schedule: { kind: 'cron', expression: '*/5 6 * * 1-5', zone: 'Europe/Madrid' },
          misfire: { mode: 'once', maxAgeMs: 200_000 },
          state: 'paused',
          labels: { source: 'kubernetes', 'kubernetes/concurrency-policy': 'Forbid' },
          payload: {
            apiVersion: 'batch/v1',
            kind: 'CronJob',
            metadata: { name: 'report', namespace: 'billing', labels: { team: 'a' } },
            spec: {
              concurrencyPolicy: 'Forbid',
              successfulJobsHistoryLimit: 3,
              jobTemplate: {
                spec: { template: { spec: { containers: [{ name: 'c', image: 'x:1' }], restartPolicy: 'Never' } } },
              },
            },
          },
        },
      },
    ]);
    expect(notes.map(({ text }) => text)).toEqual([
      expect.stringContaining('spec.concurrencyPolicy'),
      expect.stringContaining('spec.successfulJobsHistoryLimit'),
      expect.stringContaining('metadata.finalizers'),
    ]);
  });

  test('many documents and a List; other kinds are passed over and told; lines are those of the file', () => {
    const list = `apiVersion: v1
kind: List
items:
- apiVersion: batch/v1
  kind: CronJob
  metadata: { name: two }
  spec: { schedule: "0 6 * * *", jobTemplate: {} }
- apiVersion: batch/v1
  kind: CronJob
  metadata: { name: three }
  spec: { schedule: "@every 1h30m", jobTemplate: {}, suspend: false }
`;
    const text = `${cronJob('one', '  schedule: "@daily"')}---\n---\n${list}---\nkind: Secret\n`;
    const { jobs, refused, notes } = read(text);
    expect(refused).toEqual([]);
    expect(jobs.map(({ line, form }) => [line, form.key])).toEqual([
      [1, 'kubernetes/default/one'],
      [14, 'kubernetes/default/two'],
      [18, 'kubernetes/default/three'],
    ]);
    expect(jobs[2]!.form).toMatchObject({ schedule: { kind: 'rate', everyMs: 5_400_000 }, state: 'enabled' });
    expect('state' in jobs[0]!.form).toBe(false);
    expect(notes).toEqual([{ line: 23, text: 'kind Secret is no CronJob and was passed over' }]);
  });

  test('an older way to name the zone, and a deadline of 0', () => {
    const { jobs } = read(cronJob('a', '  schedule: "CRON_TZ=Asia/Kathmandu 0 6 * * *"\n  startingDeadlineSeconds: 0'));
    expect(jobs[0]!.form).toMatchObject({
      schedule: { expression: '0 6 * * *', zone: 'Asia/Kathmandu' },
      misfire: { mode: 'skip' },
    });
  });

  test('each fault is refused with its line and field, and the rest is imported', () => {
    const bad = [
      ['schedule: "61 * * * *"', 'schedule.expression'],
      ['schedule: 5', 'spec.schedule'],
      ['schedule: "@every 5x"', 'spec.schedule'],
      ['schedule: "@daily"\n  timeZone: Mars/Olympus', 'schedule.zone'],
      ['schedule: "TZ=UTC @daily"\n  timeZone: UTC', 'spec.timeZone'],
      ['schedule: "@daily"\n  suspend: maybe', 'spec.suspend'],
      ['schedule: "@daily"\n  startingDeadlineSeconds: -1', 'spec.startingDeadlineSeconds'],
      ['schedule: "@daily"\n  concurrencyPolicy: Sometimes', 'spec.concurrencyPolicy'],
      ['suspend: false', 'spec.schedule'],
    ] as const;
    for (const [spec, field] of bad) {
      const { jobs, refused } = read(`${cronJob('bad', `  ${spec}`)}---\n${cronJob('good', '  schedule: "@daily"')}`);
      expect(refused, spec).toMatchObject([{ line: 1, field }]);
      expect(jobs.map(({ form }) => form.key)).toEqual(['kubernetes/default/good']);
    }
    expect(read('kind: CronJob\napiVersion: batch/v2\n').refused).toMatchObject([{ field: 'apiVersion' }]);
    expect(read('apiVersion: batch/v1\nkind: CronJob\n').refused).toMatchObject([{ field: 'metadata.name' }]);
    expect(read('just text').refused).toHaveLength(1);
    const twice = `${cronJob('a', '  schedule: "@daily"')}---\n${cronJob('a', '  schedule: "@daily"')}`;
    expect(read(twice).refused).toMatchObject([{ field: 'key' }]);
  });

  test('broken YAML, an unquoted star, aliases without end and depth without end are refused', () => {
    const star = read(`${cronJob('a', '  schedule: */5 * * * *')}---\n${cronJob('b', '  schedule: "@daily"')}`);
    expect(star.refused[0]).toMatchObject({ line: 6 });
    expect(star.jobs.map(({ form }) => form.key)).toEqual(['kubernetes/default/b']);
    const levels = Array.from(
      { length: 12 },
      (_, n) => `a${n + 1}: &a${n + 1} [${Array(10).fill(`*a${n}`).join(', ')}]`,
    );
    const bomb = read(`a0: &a0 x\n${levels.join('\n')}\n`);
    expect(bomb.refused).toMatchObject([{ reason: expect.stringContaining('alias') }]);
    const deep = read(`a: ${'['.repeat(100_000)}`);
    expect(deep.refused).toHaveLength(1);
  });

  test('O-SC-05: __proto__ and constructor stay data', () => {
    const text = cronJob(
      'a',
      '  schedule: "@daily"\n  __proto__: { polluted: 1 }\n  constructor: { prototype: { p2: 1 } }',
    );
    const { jobs } = read(text);
    const payload = JSON.stringify(jobs[0]!.form.payload);
    expect(payload).toContain('"__proto__":{"polluted":1}');
    expect(payload).toContain('"constructor":{"prototype":{"p2":1}}');
    const plain = {} as Record<string, unknown>;
    expect(plain['polluted'] ?? plain['p2']).toBeUndefined();
  });

  test('what JSON cannot hold as it is written is refused with its path, not changed', () => {
    const template = (field: string) =>
      read(`apiVersion: batch/v1
kind: CronJob
metadata: { name: a }
spec: { schedule: "@daily", jobTemplate: { list: [1, { n: ${field} }] } }
`);
    for (const value of ['12345678901234567890', '.inf', '.nan', '!!binary aGk=']) {
      const { jobs, refused } = template(value);
      expect(jobs, value).toEqual([]);
      expect(refused, value).toMatchObject([{ line: 1, field: 'spec.jobTemplate.list[1].n' }]);
    }
    expect(template('-9007199254740991').jobs).toHaveLength(1);
  });

  test('an alias of what it stands in has no end and is refused', () => {
    const recursive = read(
      'apiVersion: batch/v1\nkind: CronJob\nmetadata: &r { name: a, labels: *r }\nspec: { schedule: "@daily", jobTemplate: {} }',
    );
    expect(recursive.refused).toMatchObject([{ line: 1, field: expect.stringMatching(/^metadata\.labels/) }]);
    expect(read('kind: &k [*k]').notes).toHaveLength(1);
  });

  test('merge keys and null are read as Kubernetes reads them', () => {
    const { jobs, refused } = read(
      `base: &base { schedule: "5 5 * * *", timeZone: null }\n---\n${cronJob('n', '  schedule: "@daily"\n  timeZone: null\n  suspend: null')}---
apiVersion: batch/v1
kind: CronJob
metadata: { name: m }
spec:
  <<: { schedule: "5 5 * * *" }
  jobTemplate: {}
`,
    );
    expect(refused).toEqual([]);
    expect(jobs.map(({ form }) => form.schedule)).toEqual([
      { kind: 'cron', expression: '@daily' },
      { kind: 'cron', expression: '5 5 * * *' },
    ]);
  });

  test('names that no cluster has cannot stand for another job', () => {
    for (const name of ['a/b', 'A', '"a b"', '.', `${'x'.repeat(254)}`]) {
      expect(read(cronJob(name, '  schedule: "@daily"')).refused, name).toMatchObject([{ field: 'metadata.name' }]);
    }
    const spaced = read(cronJob('a', '  schedule: "@daily"', '  namespace: a/b\n'));
    expect(spaced.refused).toMatchObject([{ field: 'metadata.namespace' }]);
    const long = ['a', 'b'].map((end) => cronJob(`${'x'.repeat(120)}${end}`, '  schedule: "@daily"'));
    expect(read(long.join('---\n')).jobs).toHaveLength(2);
  });

  test('a file that is not UTF-8, and a List without a list, are refused', () => {
    const latin = new TextDecoder().decode(
      Buffer.from(cronJob('a', '  schedule: "@daily"\n  x: "caf\u00e9"'), 'latin1'),
    );
    expect(read(latin)).toMatchObject({ jobs: [], refused: [{ line: 7, reason: expect.stringContaining('UTF-8') }] });
    expect(read('kind: List\nitems: { a: 1 }').refused).toMatchObject([{ line: 1, field: 'items' }]);
  });
});
