import fc from 'fast-check';
import t from 'tap';
import { instantOf, parseInstant } from './time.ts';

t.test('accepts RFC 3339 timestamps with a zone', async (t) => {
  const accepted: [string, string][] = [
    ['2026-05-04T10:00:00Z', '2026-05-04T10:00:00.000Z'],
    ['2026-05-04t10:00:00.123999999z', '2026-05-04T10:00:00.123Z'],
    ['2026-05-04T10:00:00.5+07:00', '2026-05-04T03:00:00.500Z'],
    ['2026-05-04T22:00:00-07:30', '2026-05-05T05:30:00.000Z'],
    ['2024-02-29T23:59:59-00:00', '2024-02-29T23:59:59.000Z'],
    ['2000-02-29T00:00:00Z', '2000-02-29T00:00:00.000Z'],
    ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
    ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
  ];
  for (const [text, iso] of accepted) t.equal(parseInstant(text)?.toISOString(), iso, text);
});

t.test('rejects a text that is not an RFC 3339 timestamp with a zone and a real date', async (t) => {
  const refused = [
    '',
    'now',
    '1777777777',
    '2026-05-04',
    '2026-05-04T10:00:00',
    '2026-05-04T10:00Z',
    '2026-05-04 10:00:00Z',
    '2026-5-4T10:00:00Z',
    '2026-02-29T00:00:00Z',
    '1900-02-29T00:00:00Z',
    '2026-04-31T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-00-10T00:00:00Z',
    '2026-01-00T00:00:00Z',
    '2026-05-04T24:00:00Z',
    '2026-05-04T10:60:00Z',
    '2026-05-04T10:00:60Z',
    '2016-12-31T23:59:60Z',
    '2026-05-04T10:00:00+24:00',
    '2026-05-04T10:00:00+07:60',
    '2026-05-04T10:00:00+0700',
    '0000-12-31T23:59:59Z',
    '0001-01-01T00:00:00+00:01',
    '9999-12-31T23:59:59-00:01',
    '+10000-01-01T00:00:00Z',
    '2026-05-04T10:00:00.Z',
    '2026-05-04T10:00:00,5Z',
    '2026-05-04T10:00:00Z\n',
    '２026-05-04T10:00:00Z',
  ];
  for (const text of refused) t.equal(parseInstant(text), null, JSON.stringify(text));
  t.throws(() => instantOf('tomorrow'));
  t.equal(instantOf(undefined), null);
});

t.test('parses every ISO date that JavaScript writes', async () => {
  const years = {
    min: new Date('0001-01-01T00:00:00Z'),
    max: new Date('9999-12-31T23:59:59.999Z'),
    noInvalidDate: true,
  };
  fc.assert(fc.property(fc.date(years), (date) => parseInstant(date.toISOString())?.getTime() === date.getTime()));
});
