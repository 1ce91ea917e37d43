import t from 'tap';
import { weakWriteConcern } from './write-concern.ts';

t.test('a connection string may not weaken what an acknowledgement means', async (t) => {
  const at = (query: string) => weakWriteConcern(`mongodb://user:pa%3Fss@a,b/db${query}`);
  for (const query of ['', '?', '?replicaSet=rs0', '?w=majority', '?journal=true&w=majority', '?W=Majority&j=true']) {
    t.equal(at(query), undefined, query);
  }
  for (const query of [
    '?w=1',
    '?w=0&w=majority',
    '?x=1&W=2',
    '?journal=false',
    '?j=false',
    '?%77=1',
    '?w=',
    '?safe=false',
  ]) {
    t.type(at(query), 'string', query);
  }
});
