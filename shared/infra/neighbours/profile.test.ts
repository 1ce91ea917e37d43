import t from 'tap';
import { resolveParents } from './profile.ts';

/** A profile service where nobody listens: whoever is asked about is not found to have no parents, but to be unreachable. */
const profile = { url: 'http://127.0.0.1:1', token: undefined };

t.test('an id that is a step in a path is not asked for: the path would be another', async (t) => {
  const of = (studentId: string) =>
    resolveParents(
      profile,
      { studentId, organizationId: null },
      { timeoutMs: 1_000, signal: new AbortController().signal },
    );
  for (const id of ['.', '..']) t.strictSame(await of(id), { kind: 'parents', ids: [] }, id);
  t.match(await of('...'), { kind: 'unanswered' });
});
