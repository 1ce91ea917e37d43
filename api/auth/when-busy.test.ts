import t from 'tap';
import type { Call, Route } from '#api/route.ts';
import { HasherBusy } from '#infra/passwords/fair-queue.ts';
import { captureLog } from '#testing/captured-log.ts';
import { refuseWhenBusy } from './when-busy.ts';

t.test('overload is answered with 503 and logged once a second, with a count and without stacks', async (t) => {
  const log = captureLog();
  let now = 0;
  const busy: Route = {
    method: 'POST',
    path: '/v1/auth/login',
    operation: 'login',
    summary: 'Sign in',
    guards: [],
    replies: [],
    errors: [],
    handle: () => Promise.reject(new HasherBusy()),
  };
  const [route] = refuseWhenBusy([busy], log, () => now);
  const refuse = () => route?.handle({} as Call<never, never>);
  for (let n = 0; n < 200; n += 1) {
    t.strictSame(await refuse(), { rejected: 'UNAVAILABLE', retryAfter: 1 });
    now += 10;
  }
  const lines = log.lines.filter(({ level }) => level === 'warn');
  t.strictSame(
    lines.map(({ fields }) => fields),
    [{ refused: 1 }, { refused: 100 }],
  );
  now += 1_000;
  await refuse();
  t.match(log.lines.at(-1), { fields: { refused: 100 } }, 'refusals in between are counted');
});

t.test('any other error of a handler passes', async (t) => {
  const failing = { handle: () => Promise.reject(new Error('a bug')) } as unknown as Route;
  const [route] = refuseWhenBusy([failing], captureLog(), () => 0);
  await t.rejects(async () => route?.handle({} as Call<never, never>), /a bug/);
});
