import { describe, expect, it } from 'vitest';
import { createLog } from '../../../src/runtime/log.ts';

function lines(level = 'info') {
  const written: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void written.push(JSON.parse(line)) };
  return { log: createLog({ level, base: { role: 'worker' }, destination }), written };
}

describe('log', () => {
  it('writes JSON lines with level, time, message and fields', () => {
    const { log, written } = lines();
    log.warn({ slot: 'a3' }, 'a slot was lost');
    expect(written).toEqual([
      { level: 'warn', time: expect.stringMatching(/^\d{4}-.*Z$/), role: 'worker', slot: 'a3', msg: 'a slot was lost' },
    ]);
  });

  it('leaves out lines below its level', () => {
    const { log, written } = lines('error');
    log.info({}, 'quiet');
    expect(written).toEqual([]);
  });

  it('never writes secrets: by name, one level down, and inside addresses and errors', () => {
    const { log, written } = lines();
    log.info(
      { apiKey: 'hush', config: { apiKey: 'hush', password: 'hush' }, headers: { authorization: 'hush' } },
      'fields',
    );
    log.error({ error: 'connect redis://:hush@host failed' }, 'text');
    log.error({ err: new Error('connect mongodb://u:hush@host failed') }, 'error');
    expect(written).toHaveLength(3);
    expect(JSON.stringify(written)).not.toContain('hush');
    expect(JSON.stringify(written[2])).toContain('mongodb://***@host failed');
  });
});
