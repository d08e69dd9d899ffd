import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Telemetry } from '../ports/telemetry.ts';
import { type Service, service } from './service.ts';
import { portRefusal } from './start-checks.ts';

export interface AdminOptions {
  host: string;
  /** 0 takes a free port; `port()` answers which. */
  port: number;
  /** With a key set, everything but health wants `Authorization: Bearer KEY`. */
  apiKey: string | null;
  telemetry: Telemetry;
  metrics: { text(): Promise<string>; contentType: string };
  /** Null: ready; else why not. */
  notReady: () => string | null;
}

/** Health and metrics of a role without API: `/healthz` (it runs), `/readyz` (it works), `/metrics`. GET and HEAD only. */
export function adminServer(options: AdminOptions): Service & { port(): number | null } {
  let server: Server | null = null;
  const own = service('admin', options.telemetry, async () => {
    server = await listen(options);
    return async () => {
      const last = server;
      server = null;
      last?.closeAllConnections();
      await new Promise<void>((done) => last?.close(() => done()));
    };
  });
  return {
    start: () => own.start(),
    stop: () => own.stop(),
    port() {
      const address = server?.address();
      return typeof address === 'object' && address !== null ? address.port : null;
    },
  };
}

function listen(options: AdminOptions): Promise<Server> {
  const { host, port, telemetry } = options;
  const server = createServer((request, response) => {
    answer(options, request, response).catch((error: unknown) => {
      telemetry.event('error', 'an admin request failed', { url: request.url, error: String(error) });
      if (!response.headersSent) send(response, 500, 'internal\n');
    });
  });
  return new Promise((resolve, reject) => {
    server.once('error', (error) => reject(portRefusal(error, { host, port, setting: 'adminPort' })));
    server.listen(port, host, () => resolve(server));
  });
}

async function answer(options: AdminOptions, request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD');
    send(response, 405, 'method-not-allowed\n');
    return;
  }
  switch (request.url?.split('?')[0]) {
    case '/healthz':
      send(response, 200, 'ok\n');
      return;
    case '/readyz': {
      const reason = options.notReady();
      send(response, reason === null ? 200 : 503, `${reason ?? 'ready'}\n`);
      return;
    }
    case '/metrics':
      if (options.apiKey !== null && !carriesKey(request.headers.authorization, options.apiKey)) {
        response.setHeader('www-authenticate', 'Bearer');
        send(response, 401, 'unauthorized\n');
        return;
      }
      send(response, 200, await options.metrics.text(), options.metrics.contentType);
      return;
    default:
      send(response, 404, 'route-not-found\n');
  }
}

/** Compares the key of an `Authorization: Bearer KEY` header in a time that tells nothing of either key or its length. */
function carriesKey(header: string | undefined, apiKey: string): boolean {
  const given = /^Bearer +(\S+) *$/i.exec(header ?? '')?.[1] ?? '';
  return timingSafeEqual(digest(given), digest(apiKey));
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function send(response: ServerResponse, status: number, body: string, type = 'text/plain; charset=utf-8'): void {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) });
  response.end(body);
}
