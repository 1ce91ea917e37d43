import t from 'tap';
import type { WorkerDeps } from '#workers/actor.ts';
import { resolveParents } from './actor.ts';

/** A profile service where nobody listens: whoever is asked about is not found to have no parents, but to be unreachable. */
const deps = {
  config: { neighbours: { profile: { url: 'http://127.0.0.1:1', token: undefined } }, outboundTimeoutMs: 1_000 },
} as unknown as WorkerDeps;

t.test('an id that is a step in a path is not asked for: the path would be another', async (t) => {
  const { signal } = new AbortController();
  for (const id of ['.', '..']) t.strictSame(await resolveParents(deps, id, null, signal), { ids: [] }, id);
  t.match(await resolveParents(deps, '...', null, signal), { kind: 'retry' });
});
