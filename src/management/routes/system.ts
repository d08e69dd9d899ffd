import type { FastifyInstance } from 'fastify';
import type { ApiDeps } from '../deps.ts';

/** Health, metrics, and what this installation is. */
export function systemRoutes(app: FastifyInstance, deps: ApiDeps): void {
  const { changes, installation, options, stores, telemetry } = deps;
  const tags = ['system'];

  app.get('/healthz', { schema: { tags, summary: 'The process lives' } }, async () => ({ status: 'ok' }));

  app.get('/readyz', { schema: { tags, summary: 'The process can serve' } }, async (_request, reply) => {
    const checks: Record<string, () => Promise<void>> = {
      changes: async () => {
        if (!changes.ready) throw new Error('not started');
      },
      store: async () => {
        await stores.catalog.cluster('default');
      },
      ...options.readiness,
    };
    const results = await Promise.all(
      Object.entries(checks).map(async ([name, check]) => {
        try {
          await check();
          return [name, 'ok'] as const;
        } catch (error) {
          // What a server answered may hold addresses; this route is open, so the reason goes to the log only.
          telemetry.event('warn', 'not ready', { check: name, error: String(error) });
          return [name, 'failed'] as const;
        }
      }),
    );
    const ready = results.every(([, result]) => result === 'ok');
    return reply
      .code(ready ? 200 : 503)
      .send({ status: ready ? 'ok' : 'not ready', checks: Object.fromEntries(results) });
  });

  app.get('/metrics', { schema: { tags, summary: 'Metrics in the text form of Prometheus' } }, async (_, reply) => {
    const { metrics } = options;
    if (metrics === undefined) return reply.type('text/plain').send('');
    return reply.type(metrics.contentType).send(await metrics.text());
  });

  app.get('/v1/installation', { schema: { tags, summary: 'What this installation is' } }, async () => {
    const { id, dataVersion, slotsPerSet, lanesPerSlot, changesPartitions, zoneDataVersion } = installation;
    const { mode, version, deliveries } = options;
    return {
      id,
      version,
      mode,
      deliveries,
      dataVersion,
      zoneDataVersion,
      slotsPerSet,
      lanesPerSlot,
      changesPartitions,
    };
  });
}
