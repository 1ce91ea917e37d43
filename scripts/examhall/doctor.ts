import { type Finding, probe } from '#infra/mongo/probe/probe.ts';
import { SCHEMA_VERSION, schemaFaults } from '#infra/mongo/schema/migrate.ts';
import type { CliCommand, Flags, Operator } from './operator.ts';

/** The command that checks MongoDB's behaviour and schema. */
export const DOCTOR_COMMANDS: Readonly<Record<string, CliCommand>> = { doctor: examine };

/** Probes the server, even if `release` has probed it before, and checks the schema. Returns 1 if anything is missing. */
async function examine({ mongo, say }: Operator, _words: string[], { json }: Flags): Promise<number> {
  const { server, findings } = await probe(mongo);
  const schema = await schemaFaults(mongo);
  if (json === true) say(JSON.stringify({ server, findings, schema }, null, 2));
  else {
    say(`MongoDB ${server.build}, ${server.topology}`);
    for (const finding of findings) say(lineOf(finding));
    for (const fault of schema) say(`missing  schema: ${fault}`);
    if (schema.length === 0) say(`ok       schema: complete for version ${SCHEMA_VERSION}`);
  }
  return schema.length === 0 && findings.every(({ fault }) => fault === null) ? 0 : 1;
}

function lineOf({ name, fault, breaks }: Finding): string {
  return fault === null ? `ok       ${name}` : `missing  ${name}: ${fault}. ${breaks}`;
}
