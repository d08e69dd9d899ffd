/** A TCP proxy whose network can be made slow, or cut as a pulled cable does it: nothing comes through, and nobody is told. */
import { connect, createServer, type Server, type Socket } from 'node:net';
import { HOST } from '../../deploy/local/ports.ts';

export class TcpProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Where connections go to; set before the first one comes. */
  targetPort = 0;
  /** Those of which something was swallowed. */
  readonly #lossy = new WeakSet<Socket>();
  #delayMs = 0;
  #cut = false;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async listen(): Promise<TcpProxy> {
    const server = createServer({ noDelay: true });
    const proxy = new TcpProxy(server);
    server.on('connection', (client) => proxy.#join(client));
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(0, HOST, resolve);
    });
    return proxy;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  /** Each piece takes so much longer, in each direction, ms. */
  slow(delayMs: number): void {
    this.#delayMs = delayMs;
  }

  cut(): void {
    this.#cut = true;
  }

  /** The cable is back. What was sent into the cut is gone, so connections that lost something end. */
  mend(): void {
    this.#cut = false;
    for (const socket of this.#sockets) if (this.#lossy.has(socket)) socket.destroy();
  }

  #join(client: Socket): void {
    const server = connect({ host: HOST, port: this.targetPort, noDelay: true });
    this.#pass(client, server);
    this.#pass(server, client);
  }

  #pass(from: Socket, to: Socket): void {
    this.#sockets.add(from);
    from.on('data', (chunk) => {
      if (this.#cut) {
        this.#lossy.add(from);
        this.#lossy.add(to);
      } else if (this.#delayMs === 0) to.write(chunk);
      else setTimeout(() => to.write(chunk), this.#delayMs);
    });
    from.on('error', () => {});
    from.on('close', () => {
      this.#sockets.delete(from);
      to.destroy();
    });
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}
