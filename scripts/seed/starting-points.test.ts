import t from 'tap';
import { schoolOf } from './school.ts';
import { startingPoints } from './starting-points.ts';

t.test('the call for an inbox proves the gateway where the cluster requires it, and shows no secret', async (t) => {
  const school = schoolOf('7', 3);
  const inboxIn = (hasGatewayToken: boolean) =>
    startingPoints('http://127.0.0.1:3000', school, { hasGatewayToken }).find((line) => line.startsWith('  inbox'));
  const id = school.classes[0]?.students[0]?.id;
  const open = `  inbox    curl -s http://127.0.0.1:3000/v1/notifications -H x-actor-id:${id} -H x-actor-role:STUDENT`;
  t.equal(inboxIn(false), open);
  t.equal(inboxIn(true), `${open} -H x-gateway-token:$GATEWAY_TOKEN`);
});
