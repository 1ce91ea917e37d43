import type { Test } from 'tap';
import type { JobDeps } from '#api/classifier/deps.ts';
import { jobRoutes } from '#api/classifier/job-routes.ts';
import { openStreams } from '#api/http/live-stream.ts';
import { openApi } from '#api/openapi.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { loadSchemas } from '#infra/schema/validator.ts';
import { captureLog } from '#testing/captured-log.ts';
import { callHttp, type HttpReply } from '#testing/clients/call.ts';
import type { TestMongo } from '#testing/stores/open-test-mongo.ts';
import { checkedApi } from './checked-api.ts';
import { openTestDoor } from './test-door.ts';

/** Opens a front door in this process that serves classification jobs only. Job changes are published within the process. */
export async function openJobDoor(
  t: Pick<Test, 'teardown' | 'testdir'>,
  mongo: TestMongo,
  change: Partial<JobDeps> = {},
) {
  const rings: string[] = [];
  /** Cancellation keys that were published to other processes, in order. */
  const cancelled: string[] = [];
  const listeners = new Map<string, Set<() => void>>();
  const draining = new AbortController();
  const deps: JobDeps = {
    mongo,
    now: Date.now,
    questionBank: null,
    jobAttempts: 5,
    // Tests of one file share actors and organizations; a test of the limits passes its own.
    openJobLimits: { perActor: 1_000, perOrganization: 1_000 },
    log: captureLog(),
    doorbells: {
      async ring({ _id }) {
        rings.push(_id);
        return true;
      },
    },
    jobChanges: {
      notify: (ids) => void ids.forEach((id: string) => void listeners.get(id)?.forEach((changed) => void changed())),
      listen(id, changed) {
        const group = listeners.get(id) ?? new Set();
        listeners.set(id, group.add(changed));
        return () => group.delete(changed);
      },
      isConnected: () => true,
    },
    models: { cancel: (key) => void cancelled.push(key) },
    streams: openStreams(draining.signal),
    ...change,
  };
  const routes = jobRoutes(deps);
  const { port } = await openTestDoor(t, { routes, schemas: 'product', isOutage, draining });
  const url = `http://127.0.0.1:${port}`;
  const document = openApi({ routes, schemas: loadSchemas(), version: '1.0.0', title: 'jobs' });
  const call = await checkedApi(async (method, target, options) =>
    target === '/openapi.json' ? ({ json: document } as HttpReply) : callHttp(url, method, target, options),
  );

  /** Returns the calls of one member of an organization. Every reply is checked against the OpenAPI document. */
  function as(role: string, actorId = 'teacher-1', organizationId = 'org-1') {
    const headers = { 'x-actor-id': actorId, 'x-actor-role': role, 'x-organization-id': organizationId };
    const jobs = '/v1/ai-classifier/jobs';
    return {
      headers,
      create: (change?: Record<string, unknown>) => call('POST', jobs, { headers, body: { ...jobBody(), ...change } }),
      list: (query = '') => call('GET', `${jobs}${query}`, { headers }),
      get: (id: string) => call('GET', `${jobs}/${id}`, { headers }),
      errors: (id: string, query = '') => call('GET', `${jobs}/${id}/errors${query}`, { headers }),
      cancel: (id: string) => call('POST', `${jobs}/${id}/cancel`, { headers }),
      retry: (id: string) => call('POST', `${jobs}/${id}/retry`, { headers }),
      summary: (query = '') => call('GET', `/v1/admin/ai-classifier/queue-summary${query}`, { headers }),
    };
  }
  return { url, deps, rings, cancelled, draining, as };
}

/** Returns the body of a job with seven questions, which are two batches. */
export function jobBody() {
  return { questionIds: ['q1', 'q2', 'q3', 'q4', 'q5', 'q6', 'q7'], fields: ['topic', 'difficulty'] };
}
