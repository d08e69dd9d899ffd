/** The part of autocannon that the benchmarks use; the package has no types of its own. */
declare module 'autocannon' {
  namespace autocannon {
    interface Request {
      body?: string;
    }
    interface Options {
      url: string;
      connections: number;
      /** Requests per second over all connections. */
      overallRate: number;
      /** In seconds. */
      duration: number;
      ignoreCoordinatedOmission: boolean;
      method: 'POST';
      headers: Record<string, string>;
      requests: { setupRequest(request: Request): Request }[];
    }
    interface Result {
      /** In ms. */
      latency: { p50: number; p99: number };
    }
  }
  function autocannon(options: autocannon.Options): Promise<autocannon.Result>;
  export = autocannon;
}
