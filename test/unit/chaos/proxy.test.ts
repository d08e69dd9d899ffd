import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { TcpProxy } from '../../chaos/proxy.ts';

let echo: Server;
let proxy: TcpProxy;
let client: Socket;

beforeEach(async () => {
  echo = createServer((socket) => socket.on('error', () => {}).pipe(socket)).listen(0, '127.0.0.1');
  await once(echo, 'listening');
  proxy = await TcpProxy.listen();
  proxy.targetPort = (echo.address() as { port: number }).port;
  client = connect({ host: '127.0.0.1', port: proxy.port });
  client.on('error', () => {});
  await once(client, 'connect');
});
afterEach(() => {
  client.destroy();
  proxy.close();
  echo.close();
});

async function asked(text: string): Promise<string> {
  client.write(text);
  const [answer] = await once(client, 'data');
  return String(answer);
}

it('passes what is sent, both ways', async () => {
  expect(await asked('one')).toBe('one');
  expect(await asked('two')).toBe('two');
});

it('takes longer when it is slow', async () => {
  proxy.slow(50);
  const begun = performance.now();
  expect(await asked('one')).toBe('one');
  expect(performance.now() - begun).toBeGreaterThanOrEqual(99);
});

it('lets nothing through while it is cut, tells nobody, and ends the connections that lost something', async () => {
  proxy.cut();
  let told = false;
  client.on('data', () => {
    told = true;
  });
  client.on('close', () => {
    told = true;
  });
  client.write('lost');
  // A second way to the same server shows that time has passed.
  const other = connect({ host: '127.0.0.1', port: proxy.targetPort });
  other.write('direct');
  await once(other, 'data');
  other.destroy();
  expect(told).toBe(false);
  const ended = once(client, 'close');
  proxy.mend();
  await ended;
});
