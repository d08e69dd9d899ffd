import { type Answer, decodeMessage } from '../core/messages.ts';
import { TOPICS } from '../core/topics.ts';
import type { Bus, BusReader } from '../ports/bus.ts';
import type { Clock } from '../ports/clock.ts';
import type { Telemetry } from '../ports/telemetry.ts';
import { inOrder, loop, type Service, service } from '../runtime/service.ts';

/** One read waits this long for answers, in ms. */
const READ_WAIT_MS = 500;

/**
 * Reads the answers topic from its end on, one loop a partition, and hands over what is addressed to this process. A reader
 * that fails goes on from where it stood, so no answer is skipped. Start answers when all readers stand at the end: a
 * change that is sent after that misses no answer.
 */
export function answerReaders(
  deps: { bus: Bus; clock: Clock; telemetry: Telemetry; incarnation: string },
  onAnswer: (answer: Answer) => void,
): Service {
  const { bus, telemetry, incarnation } = deps;

  const partitionReader = (partition: number, first: BusReader): Service => {
    let reader: BusReader | null = first;
    let position = first.position;
    const reading = loop({
      name: `answers-${partition}`,
      clock: deps.clock,
      telemetry,
      async round() {
        reader ??= await bus.reader(TOPICS.answers, partition, position);
        try {
          for (const { key, value } of await reader.read(READ_WAIT_MS)) {
            if (key !== incarnation || value === null) continue;
            const answer = decodeMessage<Answer>(value);
            if (answer !== null) onAnswer(answer);
          }
          position = reader.position;
        } catch (error) {
          await reader.close().catch(() => {});
          reader = null;
          throw error;
        }
        return 0;
      },
    });
    return service(`answers-${partition}`, telemetry, async () => {
      await reading.start();
      return async () => {
        await reading.stop();
        await reader?.close();
      };
    });
  };

  return service('answers', telemetry, async () => {
    const partitions = await bus.partitions(TOPICS.answers);
    const readers: Service[] = [];
    for (let partition = 0; partition < partitions; partition++) {
      readers.push(partitionReader(partition, await bus.reader(TOPICS.answers, partition, 'end')));
    }
    const all = inOrder('answers', telemetry, readers);
    await all.start();
    return () => all.stop();
  });
}
