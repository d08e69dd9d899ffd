import { setTimeout as delay } from 'node:timers/promises';
import { ApiError, errorOf } from './api-error.ts';

export interface HttpOptions {
  /** Default `http://127.0.0.1:7171`. */
  url?: string;
  apiKey?: string;
  /** Time for one answer, in ms. Default 30 s; a stream has none once it has begun. */
  timeoutMs?: number;
  /** Further tries of a request that may be repeated. Default 4. */
  retries?: number;
  /** First pause between tries, in ms; twice as long each time up to 5 s, of which a random half is taken. Default 200. */
  retryMs?: number;
  /** Default: the global `fetch`. */
  fetch?: typeof globalThis.fetch;
}

export interface ApiRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  query?: Readonly<Record<string, string | number | undefined>>;
  /** JSON to send. */
  text?: string | undefined;
  headers?: Readonly<Record<string, string>>;
  /** Doing it twice is as good as doing it once, so a try without an answer may be repeated. */
  repeatable: boolean;
  signal?: AbortSignal | undefined;
}

const LONGEST_PAUSE_MS = 5_000;

/** Requests to the API: address, key, time-outs, repeats and errors, for client and consumer alike. */
export class Http {
  readonly baseUrl: string;
  private readonly options: HttpOptions;

  constructor(options: HttpOptions) {
    this.options = options;
    this.baseUrl = (options.url ?? 'http://127.0.0.1:7171').replace(/\/+$/, '');
    if (!URL.canParse(this.baseUrl)) throw new TypeError(`not a URL: ${this.baseUrl}`);
  }

  /** The JSON of a 2xx answer; undefined for one without a body. @throws ApiError */
  async json<T>(request: ApiRequest): Promise<T> {
    const text = await this.text(request);
    try {
      return (text === '' ? undefined : JSON.parse(text)) as T;
    } catch (cause) {
      const detail = `${this.baseUrl}: the answer is no JSON: is this Carillon's API?`;
      throw new ApiError({ code: 'network', status: 0, detail, cause });
    }
  }

  /**
   * The text of a 2xx answer. Tries again what `retryable` errors refused without doing it (429, 503) and, if the request is
   * repeatable, what got no answer or 5xx; at most `retries` times.
   * @throws ApiError
   */
  async text(request: ApiRequest): Promise<string> {
    const { retries = 4, retryMs = 200 } = this.options;
    for (let tried = 0; ; tried++) {
      try {
        return await this.once(request);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        error.tries = tried + 1;
        if (tried >= retries || !mayRepeat(error, request)) throw error;
        const pauseMs = Math.min(LONGEST_PAUSE_MS, retryMs * 2 ** tried);
        await delay(pauseMs / 2 + Math.random() * (pauseMs / 2), undefined, { signal: request.signal });
      }
    }
  }

  private async once({ method, path, query, text, headers, signal }: ApiRequest): Promise<string> {
    const init: RequestInit = {
      method,
      headers: {
        ...(text !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(text !== undefined && { body: text }),
    };
    const response = await this.fetch(path + queryText(query), init, signal);
    if (response.status === 202) {
      const location = response.headers.get('location') ?? undefined;
      await response.body?.cancel();
      const detail = 'the change is accepted and will be applied; its result did not come in time';
      throw new ApiError({ code: 'accepted', status: 202, detail, location });
    }
    try {
      return await response.text();
    } catch (cause) {
      if (signal?.aborted) throw cause;
      const detail = `${this.baseUrl}: the answer broke off: ${reasonOf(cause)}`;
      throw new ApiError({ code: 'network', status: 0, detail, cause });
    }
  }

  /** One request, one try. `timeoutMs` 0: it may take as long as it likes. @throws ApiError */
  async fetch(
    path: string,
    init: RequestInit,
    signal?: AbortSignal,
    timeoutMs = this.options.timeoutMs ?? 30_000,
  ): Promise<Response> {
    const { apiKey, fetch = globalThis.fetch } = this.options;
    const headers = {
      accept: 'application/json',
      ...init.headers,
      ...(apiKey && { authorization: `Bearer ${apiKey}` }),
    };
    const limit = timeoutMs > 0 ? AbortSignal.timeout(timeoutMs) : undefined;
    const signals = [signal, limit].filter((one) => one !== undefined);
    let response: Response;
    try {
      response = await fetch(this.baseUrl + path, {
        ...init,
        headers,
        redirect: 'error',
        ...(signals.length > 0 && { signal: AbortSignal.any(signals) }),
      });
    } catch (cause) {
      if (signal?.aborted) throw cause;
      const code = limit?.aborted ? 'timeout' : 'network';
      const reason = limit?.aborted ? `no answer within ${timeoutMs} ms` : reasonOf(cause);
      throw new ApiError({ code, status: 0, detail: `${this.baseUrl}: ${reason}`, cause });
    }
    if (!response.ok) throw await errorOf(response);
    return response;
  }
}

/** 429 and 503 say that nothing was done; other failures leave that open. */
function mayRepeat(error: ApiError, { repeatable }: ApiRequest): boolean {
  if (!error.retryable) return false;
  return repeatable || error.status === 429 || error.status === 503;
}

function queryText(query: ApiRequest['query']): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined) given.set(name, String(value));
  return given.size === 0 ? '' : `?${given}`;
}

/** fetch says "fetch failed"; what failed is its cause. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (!(cause instanceof Error)) return String(cause);
  const code = 'code' in cause && typeof cause.code === 'string' ? `${cause.code} ` : '';
  return `${code}${cause.message}`.trim() || cause.name;
}

/**
 * A part of a path. `encodeURIComponent` leaves `.` and `..` as they are, and URL parsers take both out of a path even when
 * they are encoded: no job can have such a key, and the request would hit another route.
 */
export function pathPart(text: string, field: string): string {
  if (text === '' || text === '.' || text === '..' || !text.isWellFormed()) {
    const detail = `${field} must be text that is not empty, "." or "..", without half of a surrogate pair`;
    throw new ApiError({ code: 'request-invalid', status: 0, detail, field });
  }
  return encodeURIComponent(text);
}
