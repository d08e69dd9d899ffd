import { describe, expect, test } from 'vitest';
import { Delivery } from '../../../src/adapters/kafka/delivery.ts';
import { carillonError } from '../../../src/core/errors.ts';

const away = carillonError('unavailable', 'no answer');
const fenced = carillonError('lane-fenced', 'another owner');

/** Ten records in each of two partitions: the first is durable, the second failed. */
function half(waits: boolean, error = away): Promise<unknown> {
  const delivery = new Delivery(waits);
  const answer = delivery.answer(20);
  delivery.failed('t', 1, 10, error);
  delivery.acknowledged(10);
  return answer;
}

describe('what becomes of a call whose partitions fare differently', () => {
  test('of triggers, the partition that failed stands for itself', async () => {
    expect(await half(false)).toEqual([{ topic: 't', partition: 1, code: 'outcome-unknown' }]);
  });

  test('others hear of the failure', async () => {
    await expect(half(true)).rejects.toBe(away);
  });

  test('where nothing is durable, or the lane is lost, the whole call has failed', async () => {
    await expect(half(false, fenced)).rejects.toBe(fenced);
    const none = new Delivery(false);
    const answer = none.answer(20);
    none.failed('t', 0, 10, away);
    none.failed('t', 1, 10, away);
    await expect(answer).rejects.toBe(away);
    const late = new Delivery(false);
    const whole = late.answer(20);
    late.failed('t', 0, 10, away);
    late.failed('t', 1, 10, fenced);
    await expect(whole).rejects.toBe(fenced);
  });
});
