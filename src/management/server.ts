import { randomBytes } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { type Service, service } from '../runtime/service.ts';
import { portRefusal } from '../runtime/start-checks.ts';
import { buildApi } from './app.ts';
import { checkListen } from './auth.ts';
import type { ApiDeps } from './deps.ts';

export interface ListenOptions {
  host: string;
  /** 0 takes a free one. */
  port: number;
}

/** The API on a socket. `address` stands once it is started. */
export interface ApiServer extends Service {
  readonly address: { host: string; port: number } | null;
}

/** @throws CarillonError at start: `setup-refused` for an open address without a key, or a port that is taken */
export function apiServer(deps: Omit<ApiDeps, 'newRequestKey'>, { host, port }: ListenOptions): ApiServer {
  let address: ApiServer['address'] = null;
  const own = service('api', deps.telemetry, async () => {
    checkListen(host, deps.options.apiKey);
    const app = await buildApi({ ...deps, newRequestKey });
    try {
      await app.listen({ host, port });
    } catch (error) {
      await app.close();
      throw portRefusal(error, { host, port, setting: 'listenPort' });
    }
    address = { host, port: (app.server.address() as AddressInfo).port };
    return async () => {
      address = null;
      await app.close();
    };
  });
  return {
    start: () => own.start(),
    stop: () => own.stop(),
    get address() {
      return address;
    },
  };
}

export function newRequestKey(): string {
  return randomBytes(10).toString('hex');
}
