import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
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
  for (const id of ['.', '..']) t.strictSame(await of(id), { kind: 'parents', ids: [], leftOut: 0 }, id);
  t.match(await of('...'), { kind: 'unanswered' });
});

t.test('an entry that is no person id does not silence the other parents', async (t) => {
  let parentIds: unknown = [];
  const server = createServer((_, response) => response.end(JSON.stringify({ data: { parentIds } }))).listen(
    0,
    '127.0.0.1',
  );
  await once(server, 'listening');
  t.teardown(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { signal } = new AbortController();
  const many = Array.from({ length: 102 }, (_, n) => `p-${n}`);
  for (const [listed, found] of [
    [['p-1', { id: 2 }], { kind: 'parents', ids: ['p-1'], leftOut: 1 }],
    [['p-1', 'p-1', 'p 2', 'auth0|3', null, ''], { kind: 'parents', ids: ['p-1', 'auth0|3'], leftOut: 3 }],
    [many, { kind: 'parents', ids: many.slice(0, 100), leftOut: 2 }],
    [[], { kind: 'parents', ids: [], leftOut: 0 }],
    [[{ id: 2 }, 'p\n'], { kind: 'unreadable' }],
    ['p-1', { kind: 'unreadable' }],
    [null, { kind: 'unreadable' }],
  ] as const) {
    parentIds = listed;
    const resolved = await resolveParents(
      { url, token: undefined },
      { studentId: 's', organizationId: null },
      { timeoutMs: 5_000, signal },
    );
    t.strictSame(resolved, found, JSON.stringify(listed).slice(0, 60));
  }
});
