import { Agent } from 'node:http';
import os from 'node:os';
import { send } from '#scripts/http/call.ts';
import { openHalfSent } from '#testing/clients/half-sent.ts';

/**
 * Attacks a front door until it is stopped: half-sent logins stand, and wrong logins arrive at a steady rate, all from addresses of its own.
 * Settings: PORT, HALF_SENT and LOGINS_PER_SECOND.
 */
// Attackers have machines of their own. Here the attack leaves the processors to the product first.
os.setPriority(os.constants.priority.PRIORITY_LOW);
const port = Number(process.env.PORT);
const ADDRESSES = 20;
/** Pause between two groups of wrong logins (ms). */
const EVERY_MS = 50;
/** Time in which the half-sent logins are opened, as long as the door leaves them open (s). Their ends are then spread as well. */
const OPENING_S = 5;

const addressOf = (index: number) => `203.0.113.${index % ADDRESSES}`;
const count = Number(process.env.HALF_SENT);
await openHalfSent({ port, count, address: addressOf, perSecond: count / OPENING_S });
const agent = new Agent({ keepAlive: true });
let sent = 0;

function sendWrongLogin(index: number): void {
  const headers = { 'x-forwarded-for': addressOf(index), 'content-type': 'application/json' };
  const body = JSON.stringify({ email: `${process.pid}-${index}@invented.example`, password: 'mật khẩu sai' });
  // No answer matters: an attacker goes on after each of them.
  send(`http://127.0.0.1:${port}`, { method: 'POST', target: '/v1/auth/login', headers, body, agent }).catch(
    () => undefined,
  );
}

setInterval(() => {
  const group = (Number(process.env.LOGINS_PER_SECOND) * EVERY_MS) / 1_000;
  for (let n = 0; n < group; n += 1) sendWrongLogin(sent++);
}, EVERY_MS);
process.on('SIGTERM', () => process.exit(0));
process.stdout.write('bench attack has begun\n');
