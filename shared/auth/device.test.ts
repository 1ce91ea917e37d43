import t from 'tap';
import { DAY } from '#shared/kernel/time.ts';
import { deviceClaims, isDeviceOf } from './device.ts';

const NOW = Date.UTC(2026, 8, 7, 1, 0, 0, 750);
const sitting = { sessionId: 's-1', now: NOW };

t.test('a device token is one of its account for 400 days', async (t) => {
  const claims = deviceClaims({ _id: 'an' }, sitting);
  const iat = Math.floor(NOW / 1_000);
  t.strictSame(claims, { sub: 'an', type: 'device', sid: 's-1', epoch: '', iat, exp: iat + (400 * DAY) / 1_000 });
  t.equal(isDeviceOf({ _id: 'an' }, claims), true);
  t.equal(isDeviceOf({ _id: 'binh' }, claims), false);
});

t.test('a new epoch of the account ends the tokens before it, and no other', async (t) => {
  const [before, after] = [{ _id: 'an' }, { _id: 'an', deviceEpoch: 'e-1' }];
  t.equal(isDeviceOf(after, deviceClaims(before, sitting)), false);
  t.equal(isDeviceOf(after, deviceClaims(after, sitting)), true);
  t.equal(isDeviceOf({ ...after, deviceEpoch: 'e-2' }, deviceClaims(after, sitting)), false);
});
