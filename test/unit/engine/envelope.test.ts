import { expect, test } from 'vitest';
import { triggerHead, triggerMessage } from '../../../src/core/envelope.ts';

const cluster = { name: 'billing', partitions: 12, envelope: 'cloudevents' as const };
const record = { key: 'billing/invoice-7', version: 65_537, payload: '{"α": "📦"}\n', contentType: 'application/json' };
const nominalMs = Date.UTC(2026, 11, 1, 0, 14);

test('a trigger is a CloudEvent in binary mode: attributes in headers, payload byte for byte', () => {
  const message = triggerMessage(triggerHead(cluster, record, 7), '3-5-1796084040000', nominalMs, nominalMs + 1_500);
  expect(message.headers).toEqual({
    ce_specversion: '1.0',
    ce_id: '3-5-1796084040000',
    ce_type: 'carillon.trigger.v1',
    ce_source: '/clusters/billing',
    ce_subject: 'billing/invoice-7',
    ce_time: '2026-12-01T00:14:00.000Z',
    'content-type': 'application/json',
    ce_cluster: 'billing',
    ce_jobversion: '65537',
    ce_effectivetime: '2026-12-01T00:14:01.500Z',
    ce_epoch: '7',
  });
  expect(message.key).toBe('billing/invoice-7');
  expect(Buffer.from(message.value).toString('utf8')).toBe('{"α": "📦"}\n');
  // O-KF-02: as the Java client puts this key on 12 partitions.
  expect(message.partition).toBe(3);
});

test('without a spread both times are the same, and triggers made in turn keep their own', () => {
  const head = triggerHead(cluster, record, 1);
  const times = [nominalMs, nominalMs + 1, nominalMs].map((ms) => triggerMessage(head, 'x', ms, ms).headers);
  expect(times.map((t) => [t['ce_time'], t['ce_effectivetime']])).toEqual([
    ['2026-12-01T00:14:00.000Z', '2026-12-01T00:14:00.000Z'],
    ['2026-12-01T00:14:00.001Z', '2026-12-01T00:14:00.001Z'],
    ['2026-12-01T00:14:00.000Z', '2026-12-01T00:14:00.000Z'],
  ]);
});

test('the compact envelope has the same key and value and one header', () => {
  const compact = triggerHead({ ...cluster, envelope: 'compact' }, record, 7);
  const message = triggerMessage(compact, '3-5-1', nominalMs, nominalMs);
  expect(message.headers).toEqual({ id: '3-5-1' });
  expect(message.partition).toBe(3);
  expect(Buffer.from(message.value).toString('utf8')).toBe(record.payload);
});

test('O-KF-02: partitions of keys agree with the Java client', () => {
  const keys = ['billing/invoice-7', 'team:α', '📦-42', '00000000000000000042'];
  const expected: Record<number, number[]> = { 12: [3, 5, 4, 11], 24: [3, 5, 4, 23], 32: [19, 29, 4, 7] };
  for (const [partitions, of] of Object.entries(expected)) {
    const all = { ...cluster, partitions: Number(partitions) };
    expect(keys.map((key) => triggerHead(all, { ...record, key }, 1).partition)).toEqual(of);
  }
});
