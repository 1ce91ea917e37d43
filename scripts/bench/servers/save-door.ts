import { attemptRoutes } from '#api/attempt/routes.ts';
import { openMetrics } from '#infra/metrics/metrics.ts';
import { mongoMetrics } from '#infra/metrics/process-metrics.ts';
import { openMongo } from '#infra/mongo/connect.ts';
import { isOutage } from '#infra/mongo/faults.ts';
import { coldFrontDoor } from '#scripts/bench/cold-front-door.ts';
import { serveBench } from './bench-door.ts';

/** Our front door with the routes of the attempt service, on the MongoDB of MONGODB_URL and without Redis. A save needs no Redis. */
const mongo = openMongo({ url: process.env.MONGODB_URL ?? '', database: 'bench', appName: 'examhall-bench-door' });
mongoMetrics(openMetrics({ process: false }), mongo);
await mongo.client.connect();
await serveBench({ level: 'info', isOutage, routes: attemptRoutes(coldFrontDoor(mongo)) });
