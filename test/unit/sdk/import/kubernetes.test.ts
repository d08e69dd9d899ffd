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
});
