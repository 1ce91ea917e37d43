import t from 'tap';
import { subjectFaults } from './check-commits.ts';

t.test('accepts imperatives, with or without an area, and subjects that git writes', async (t) => {
  for (const subject of [
    'Add a probe',
    'mongo: mend a stand-in where its workaround cost MongoDB',
    "operator's page: pass --yes through",
    'Ring the worker after the commit',
    'Merge the probe',
    'fixup! The probe',
  ]) {
    t.strictSame(subjectFaults(`${subject}\n\nThe body is free.`), [], subject);
  }
});

t.test('refuses other forms of a verb, other words, and subjects that are too long', async (t) => {
  for (const subject of [
    'Added a probe',
    'Adds a probe',
    'docs: adding a page',
    'The probe is asked first',
    'That a settlement comes late is proven',
    'tests: two rigs',
    '',
    '42 probes',
  ]) {
    t.match(subjectFaults(subject), [/begin with a verb/], subject);
  }
  t.match(subjectFaults(`Add ${'x'.repeat(69)}`), [/73 characters/]);
  t.strictSame(subjectFaults(`Add ${'x'.repeat(68)}`), []);
  t.match(subjectFaults('Add a probe.'), [/full stop/]);
});
