import t from 'tap';
import { ask, echoRoute, openTestDoor } from '#testing/doors/test-door.ts';
import { onlyWhenUsable } from './service.ts';

t.test('a service answers 503 until the database is usable', async (t) => {
  let usable = false;
  const { port } = await openTestDoor(t, { routes: onlyWhenUsable([echoRoute()], () => usable) });
  t.match(await ask(t, port, 'POST', '/v1/echo/a'), { status: 503, headers: { 'retry-after': '1' } });
  usable = true;
  t.match(await ask(t, port, 'POST', '/v1/echo/a'), { status: 200 });
});
