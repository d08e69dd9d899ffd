import type { FastifyInstance } from 'fastify';
import { carillonError } from '../../core/errors.ts';
import type { ClusterForm } from '../../core/form/job-form.ts';
import { CLUSTER_SCHEMA } from '../../core/form/job-schema.ts';
import type { Cluster } from '../../core/job.ts';
import { LIMITS } from '../../core/limits.ts';
import { formatInstant } from '../../core/schedule/iso.ts';
import { TOPICS, triggerTopic } from '../../core/topics.ts';
import type { ApiDeps } from '../deps.ts';
import type { JobService } from '../job-service.ts';
import { bodyOf, readQuery } from '../requests.ts';
import { CLUSTER_PARTITIONS, triggerTopicSpec } from '../trigger-topics.ts';
import { checkBy } from '../validate.ts';

const checkCluster = checkBy(CLUSTER_SCHEMA);

/** Logical clusters (tenants): each has a trigger topic of its own. */
export function clusterRoutes(app: FastifyInstance, deps: ApiDeps, service: JobService): void {
  const { bus, catalog, jobs } = deps.stores;
  const tags = ['clusters'];

  app.get('/v1/clusters', { schema: { tags, summary: 'List logical clusters' } }, async (request) => {
    readQuery(request, {});
    return { clusters: (await catalog.clusters()).map(show) };
  });

  app.get('/v1/clusters/:cluster', { schema: { tags, summary: 'Read a logical cluster' } }, async (request) => {
    readQuery(request, {});
    const cluster = await service.cluster((request.params as { cluster: string }).cluster);
    return { ...show(cluster), jobs: await jobs.counts(cluster.name) };
  });

  const post = { schema: { tags, summary: 'Create a logical cluster and its trigger topic', body: CLUSTER_SCHEMA } };
  app.post('/v1/clusters', post, async (request, reply) => {
    const form = bodyOf<ClusterForm>(request);
    checkCluster(form);
    const cluster = clusterOf(form, deps);
    const { topic, partitions, delivery } = cluster;
    const existing = await catalog.clusters();
    if (existing.some(({ name }) => name === cluster.name)) throw exists(cluster.name);
    if (existing.length >= LIMITS.clusters) {
      throw carillonError('too-many-requests', `there are ${LIMITS.clusters} logical clusters already`, {
        field: 'name',
      });
    }
    await bus.ensureTopics([triggerTopicSpec(topic, partitions, delivery, deps.options.triggerRetention)]);
    if (!(await catalog.createCluster(cluster))) throw exists(cluster.name);
    return reply
      .code(201)
      .header('location', `/v1/clusters/${encodeURIComponent(cluster.name)}`)
      .send(show(cluster));
  });
}

function clusterOf(form: ClusterForm, { options, clock }: ApiDeps): Cluster {
  const { name, partitions = CLUSTER_PARTITIONS, envelope = 'cloudevents' } = form;
  const delivery = form.delivery ?? options.deliveries[0];
  if (name === '.' || name === '..')
    throw carillonError('request-invalid', 'URLs swallow this name', { field: 'name' });
  if (!options.deliveries.includes(delivery)) {
    throw carillonError('delivery-unsupported', `${delivery}; here there is ${options.deliveries.join(', ')}`, {
      field: 'delivery',
      token: delivery,
    });
  }
  const topic = form.topic ?? triggerTopic(name);
  if (topic === '.' || topic === '..' || Object.values<string>(TOPICS).includes(topic)) {
    throw carillonError('request-invalid', `the topic "${topic}" is not for triggers`, {
      field: 'topic',
      token: topic,
    });
  }
  return { name, topic, partitions, envelope, delivery, createdMs: clock.wallMs() };
}

function exists(name: string): Error {
  return carillonError('cluster-exists', `"${name}"`, { field: 'name' });
}

function show({ createdMs, ...cluster }: Cluster) {
  return { ...cluster, createdAt: formatInstant(createdMs) };
}
