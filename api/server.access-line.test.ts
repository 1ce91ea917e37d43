import t from 'tap';
import { identity, role } from '#api/http/guards/identity.ts';
import { ask, echoRoute, openTestDoor } from '#testing/doors/test-door.ts';

const route = echoRoute({
  method: 'GET',
  path: '/v1/attempts/:attemptId/parts/:partId',
  guards: [identity(), role('STUDENT', 'ADMIN')],
});

const list = { ...route, path: '/v1/attempts' };

/** Sends one request as this role and returns the log line of the request. */
async function lineOf(as: string | undefined, target = '/v1/attempts/a-1/parts/p%2D2?q=secret') {
  const { port, lines } = await openTestDoor(t, { routes: [route, list] });
  await ask(t, port, 'GET', target, as === undefined ? [] : ['X-User-Id: u-1', `X-User-Role: ${as}`]);
  return lines().find(({ msg }) => msg === 'request') ?? {};
}

const IDS = { attemptId: 'a-1', partId: 'p-2' };

t.test('the access line of an ADMIN or TEACHER names the role and the objects, refused calls included', async (t) => {
  t.match(await lineOf('ADMIN'), { status: 200, role: 'ADMIN', objectIds: IDS, actor: /^[\w-]{16}$/ });
  const refused = await lineOf('TEACHER');
  t.match(refused, { status: 403, role: 'TEACHER', objectIds: IDS });
  t.notMatch(JSON.stringify(refused), /secret|u-1/, 'neither the query string nor the plain actor id');
  const without = await lineOf('ADMIN', '/v1/attempts');
  t.match(without, { status: 200, role: 'ADMIN' });
  t.notOk('objectIds' in without, 'a path without ids');
});

t.test('the access line of any other caller names neither', async (t) => {
  for (const line of [await lineOf('STUDENT'), await lineOf('admin'), await lineOf(undefined)]) {
    t.notOk('role' in line);
    t.notOk('objectIds' in line);
  }
});

t.test('a path that is no id, and would need escaping, names no object', async (t) => {
  const line = await lineOf('ADMIN', '/v1/attempts/a%22%2C%22x/parts/p');
  t.match(line, { status: 404, route: '(none)' });
  t.notOk('objectIds' in line);
});
