import t from 'tap';
import { weaknessOf } from './connect.ts';

const at = (query: string) => weaknessOf(`mongodb://user:pa%3Fss@a,b/db${query}`);

t.test('a connection string may not weaken the write concern', async (t) => {
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

t.test('a connection string may not weaken majority reads of the primary', async (t) => {
  for (const query of ['?readPreference=primary', '?readpreference=Primary&readConcernLevel=majority']) {
    t.equal(at(query), undefined, query);
  }
  for (const mode of ['primaryPreferred', 'secondary', 'secondaryPreferred', 'nearest', '']) {
    t.equal(at(`?replicaSet=rs0&readPreference=${mode}`), 'readPreference is not primary', mode);
  }
  t.equal(at('?readConcernLevel=local'), 'readConcernLevel is not majority');
  t.equal(at('?readPreferenceTags=dc:east'), 'readPreferenceTags is set');
  t.equal(at('?maxStalenessSeconds=120'), 'maxStalenessSeconds is set');
});
