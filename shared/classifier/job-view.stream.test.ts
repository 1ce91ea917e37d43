import t from 'tap';
import { startOf } from './job-view.ts';

t.test('a job stream begins where its client left off', async (t) => {
  const running = { revision: 7, isOpen: true };
  const finished = { revision: 7, isOpen: false };
  t.equal(startOf(undefined, running).kind, 'snapshot');
  for (const unknown of ['', 'x', '-1', '0', '1.5', '1e3', ' 7', '8', '99999999999999999999']) {
    t.equal(startOf(unknown, running).kind, 'snapshot', unknown);
    t.equal(startOf(unknown, finished).kind, 'snapshot', unknown);
  }
  t.equal(startOf('6', running).kind, 'update');
  t.equal(startOf('6', finished).kind, 'update');
  t.equal(startOf('7', running).kind, 'nothing');
  t.equal(startOf('7', finished).kind, 'over');
});
