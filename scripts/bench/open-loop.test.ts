import t from 'tap';
import { type Arrival, highestRate, openLoop } from './open-loop.ts';

t.test('an open loop sends each request when it is due, although earlier ones are not answered', async (t) => {
  const sent: string[] = [];
  const held = Promise.withResolvers<void>();
  const arrivals: Arrival[] = [
    {
      dueMs: 2,
      route: 'save',
      // Answers the first request, which would wait for ever if the loop waited for it.
      send: async () => {
        sent.push('second');
        held.resolve();
      },
    },
    {
      dueMs: 0,
      route: 'start',
      send: () => {
        sent.push('first');
        return held.promise;
      },
    },
    { dueMs: 3, route: 'save', send: () => Promise.reject(new Error('refused')) },
  ];
  const done: number[] = [];
  const { routes } = await openLoop(arrivals, (count) => done.push(count));
  t.strictSame(sent, ['first', 'second'], 'in the order of their due times');
  t.strictSame([...routes.keys()], ['start', 'save']);
  t.equal(routes.get('start')?.latencies.length, 1);
  t.equal(routes.get('save')?.latencies.length, 1);
  t.match(routes.get('save')?.failures, [{ message: 'refused' }]);
  t.strictSame(done, [1, 2, 3]);
});

t.test('the search for the highest rate doubles, then halves the distance', async (t) => {
  const tried: number[] = [];
  const below = (limit: number) => async (rate: number) => {
    tried.push(rate);
    return rate <= limit;
  };
  t.equal(await highestRate(50, 3, below(230)), 225);
  t.strictSame(tried, [50, 100, 200, 400, 300, 250, 225]);
  t.equal(await highestRate(50, 2, below(20)), 13, 'below the first rate');
  t.equal(await highestRate(4, 9, below(0)), 0, 'no rate holds');
});
