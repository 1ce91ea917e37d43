import fc from 'fast-check';
import t from 'tap';
import { isDateAlone, isOneCharacter, isRun } from './predictable-password.ts';

t.test('a date alone is recognized in the usual orders and with the usual separators', async (t) => {
  for (const text of ['20102008', '20-10-2008', '20/10/2008', '20.10.2008', '2008-10-20', '20081020', '10202008']) {
    t.equal(isDateAlone(text), true, text);
  }
  for (const text of ['20 10 2008', ' 20102008 ', '2-9-2010', '20-10-08', '201008', '29022008', '31_12_1999']) {
    t.equal(isDateAlone(text), true, text);
  }
  for (const text of ['20132008a', '31-04-2008', '99999999', '20-10-2108', '00102008', '20102008!', '0912345678', '']) {
    t.equal(isDateAlone(text), false, text);
  }
  for (const text of ['20-10-2008-1', 'an 20-10-2008', '20--', '----', '20-ab-2008']) {
    t.equal(isDateAlone(text), false, text);
  }
});

t.test('every day from 1900 to 2099 is a date in every form', async () => {
  const day = fc.date({ min: new Date('1900-01-01'), max: new Date('2099-12-31'), noInvalidDate: true });
  fc.assert(
    fc.property(day, fc.constantFrom('', '-', '/', '.', ' '), (date, separator) => {
      const [year = '', month = '', dayOfMonth = ''] = date.toISOString().slice(0, 10).split('-');
      const forms = [
        [dayOfMonth, month, year],
        [month, dayOfMonth, year],
        [year, month, dayOfMonth],
        [dayOfMonth, month, year.slice(2)],
      ];
      return forms.every((parts) => isDateAlone(parts.join(separator)));
    }),
  );
});

t.test('one repeated character and a run of characters are recognized', async (t) => {
  for (const text of ['aaaaaaaa', '11111111', '🐘🐘🐘🐘🐘🐘🐘🐘', 'ễễễễễễễễ'])
    t.equal(isOneCharacter(text), true, text);
  for (const text of ['', 'a', 'aaaaaaab', 'abababab']) t.equal(isOneCharacter(text), false, text);
  for (const text of ['12345678', '87654321', 'abcdefgh', 'hgfedcba', '1234567890', '0987654321', '34567890']) {
    t.equal(isRun(text), true, text);
  }
  for (const text of ['', '12', '12345679', 'abcdabcd', 'aaaaaaaa', '12344321', '89:;<=>?'.slice(0, 0)]) {
    t.equal(isRun(text), false, text);
  }
});

t.test('a text that ends differently than its run goes on is no run', async () => {
  fc.assert(
    fc.property(fc.integer({ min: 97, max: 110 }), fc.integer({ min: 8, max: 12 }), (from, length) => {
      const run = String.fromCodePoint(...Array.from({ length }, (_, index) => from + index));
      return isRun(run) && isRun([...run].reverse().join('')) && !isRun(`${run}-`) && !isOneCharacter(run);
    }),
  );
});
