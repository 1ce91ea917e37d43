import type { School } from './school.ts';

/** Returns the lines that name where to begin with a school. With a gateway token, the call for the inbox takes it from the reader's shell. */
export function startingPoints(
  url: string,
  school: School,
  { hasGatewayToken }: { hasGatewayToken: boolean },
): string[] {
  const [reader] = school.classes.flatMap((room) => room.students);
  const released = school.exams.find(({ state }) => state === 'released');
  const identity = `-H x-actor-id:${reader?.id} -H x-actor-role:STUDENT`;
  const gateway = hasGatewayToken ? ' -H x-gateway-token:$GATEWAY_TOKEN' : '';
  return [
    'To look at',
    `  console  ${url}/ops`,
    `  inbox    curl -s ${url}/v1/notifications ${identity}${gateway}`,
    `  exam     npm run examhall -- exam ${released?.id}`,
    `  trace    npm run examhall -- trace student:${reader?.id}`,
  ];
}
