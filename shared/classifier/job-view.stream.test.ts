import t from 'tap';
import { startOf } from './job-view.ts';

t.test('a stream begins where its client left off', async (t) => {
  const running = { revision: 7, isOpen: true };
  const finished = { revision: 7, isOpen: false };
  t.equal(startOf(undefined, running), 'snapshot');
  for (const unknown of ['', 'x', '-1', '0', '1.5', '1e3', ' 7', '8', '99999999999999999999']) {
    t.equal(startOf(unknown, running), 'snapshot', unknown);
    t.equal(startOf(unknown, finished), 'snapshot', unknown);
  }
  t.equal(startOf('6', running), 'update');
  t.equal(startOf('6', finished), 'update');
  t.equal(startOf('7', running), 'nothing');
  t.equal(startOf('7', finished), 'over');
});
