import t from 'tap';
import { resolveParents } from './profile.ts';

/** A profile service that is unreachable. A call to it ends as `unanswered`, not with an empty list. */
const profile = { url: 'http://127.0.0.1:1', token: undefined };

t.test('a student id that is a path segment has no parents, and the profile service is not called', async (t) => {
  const of = (studentId: string) =>
    resolveParents(
      profile,
      { studentId, organizationId: null },
      { timeoutMs: 1_000, signal: new AbortController().signal },
    );
  for (const id of ['.', '..']) t.strictSame(await of(id), { kind: 'parents', ids: [] }, id);
  t.match(await of('...'), { kind: 'unanswered' });
});
