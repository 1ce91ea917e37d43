import fc from 'fast-check';
import t from 'tap';
import { loadSchemas } from '#infra/schema/validator.ts';
import { isPersonId } from './person-id.ts';

const faultsOf = loadSchemas().validator('common/person-id');

t.test('the ids of common identity providers are ids of persons', async (t) => {
  for (const id of [
    'student-1',
    'auth0|5f7c',
    'google-oauth2|1',
    'a+b@x.vn',
    'u/1',
    '{6f9619ff-8b86}',
    'dGVzdA==',
    '~',
  ]) {
    t.ok(isPersonId(id), id);
  }
  for (const id of ['', 'p 1', 'x\n', 'é', 'a,b', 'a"b', '\u202ea', 'x'.repeat(129), 1, null])
    t.notOk(isPersonId(id), `${id}`);
});

t.test('bodies and headers accept the same ids', async () => {
  const text = fc.oneof(fc.string({ unit: 'binary', maxLength: 130 }), fc.stringMatching(/^[ -~]{0,129}$/));
  fc.assert(fc.property(text, (id) => isPersonId(id) === (faultsOf(id).length === 0)));
});
