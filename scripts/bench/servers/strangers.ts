import { Agent } from 'node:http';
import { send } from '#scripts/http/call.ts';
import { openHalfSent } from '#testing/clients/half-sent.ts';

/**
 * Attacks a front door until it is stopped: half-sent logins stand, and wrong logins arrive at a steady rate, all from addresses of its own.
 * Prints on SIGTERM how the door answered. Settings: PORT, HALF_SENT and LOGINS_PER_SECOND.
 */
const port = Number(process.env.PORT);
const ADDRESSES = 20;
/** Pause between two groups of wrong logins (ms). */
const EVERY_MS = 50;

const addressOf = (index: number) => `203.0.113.${index % ADDRESSES}`;
const count = Number(process.env.HALF_SENT);
const halfSent = await openHalfSent({ port, count, address: addressOf, perSecond: count / 5 });
const agent = new Agent({ keepAlive: true });
const statuses: Record<string, number> = {};
let sent = 0;

async function wrongLogin(index: number): Promise<void> {
  const headers = { 'x-forwarded-for': addressOf(index), 'content-type': 'application/json' };
  const body = JSON.stringify({ email: `${process.pid}-${index}@invented.example`, password: 'mật khẩu sai' });
  const call = { method: 'POST', target: '/v1/auth/login', headers, body, agent };
  const status = await send(`http://127.0.0.1:${port}`, call).then(
    (reply) => `${reply.status}`,
    (error) => `cut ${error.message} ${error.metIdleClose}`,
  );
  statuses[status] = (statuses[status] ?? 0) + 1;
}

setInterval(() => {
  const group = (Number(process.env.LOGINS_PER_SECOND) * EVERY_MS) / 1_000;
  for (let n = 0; n < group; n += 1) void wrongLogin(sent++);
}, EVERY_MS);
process.on('SIGTERM', () => {
  process.stdout.write(`${JSON.stringify({ ended: halfSent.replies(408), wrongLogins: statuses })}\n`);
  process.exit(0);
});
process.stdout.write('bench attack has begun\n');
