import fc from 'fast-check';
import t from 'tap';
import { isTimestamp } from './timestamp.ts';

t.test('real RFC 3339 dates with a zone, years 1-9999', async (t) => {
  const good = [
    '2026-09-01T08:00:00Z',
    '2026-09-01t08:00:00.5z',
    '2026-09-01T08:00:00.123456789+07:00',
    '2024-02-29T23:59:59-00:00',
    '2000-02-29T00:00:00Z',
    '0001-01-01T00:00:00Z',
    '9999-12-31T23:59:59.999Z',
  ];
  const bad = [
    ...[
      '',
      'now',
      '2026-09-01',
      '2026-09-01T08:00:00',
      '2026-09-01T08:00Z',
      '2026-09-01 08:00:00Z',
      '2026-9-1T08:00:00Z',
    ],
    ...[
      '2026-02-29T00:00:00Z',
      '1900-02-29T00:00:00Z',
      '2026-04-31T00:00:00Z',
      '2026-13-01T00:00:00Z',
      '2026-00-01T00:00:00Z',
    ],
    ...[
      '2026-01-00T00:00:00Z',
      '2026-01-01T24:00:00Z',
      '2026-01-01T00:60:00Z',
      '2016-12-31T23:59:60Z',
      '2026-01-01T00:00:00+24:00',
    ],
    ...['0000-12-31T23:59:59Z', '0001-01-01T00:00:00+00:01', '9999-12-31T23:59:59-00:01', '+02026-01-01T00:00:00Z'],
    ...[
      '2026-01-01T00:00:00.Z',
      '2026-01-01T00:00:00,5Z',
      '2026-01-01T00:00:00Z\n',
      '２026-01-01T00:00:00Z',
      '2026-01-01T00:00:00+0700',
    ],
  ];
  for (const text of good) t.ok(isTimestamp(text), text);
  for (const text of bad) t.notOk(isTimestamp(text), JSON.stringify(text));
});

t.test('every date that we write is one that we read', async () => {
  const noInvalidDate = {
    min: new Date('0001-01-01T00:00:00Z'),
    max: new Date('9999-12-31T23:59:59.999Z'),
    noInvalidDate: true,
  };
  fc.assert(fc.property(fc.date(noInvalidDate), (date) => isTimestamp(date.toISOString())));
});
