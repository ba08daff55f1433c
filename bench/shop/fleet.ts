/** Which processes of the shop run when, and how busy the shop is at which hour. */
import { services, type Service } from "./services.js";

/** Seconds that the shop is observed for: 8 days. */
const shopSeconds = 8 * 86_400;
/** The same in nanoseconds. */
export const shopNs = shopSeconds * 1e9;

const hourNs = 3600e9;

/** The bad deploy: of `payment`, on the sixth day, taken back after four hours. Nanoseconds since the shop's begin. */
const badDeploy = { service: "payment", version: "2.4.0", fromNs: 130 * hourNs, toNs: 134 * hourNs } as const;

/** One process. Times are nanoseconds since the shop's begin. */
export interface Instance {
  /** Its place in the fleet. */
  readonly index: number;
  readonly service: Service;
  readonly version: string;
  readonly id: string;
  readonly host: string;
  /** It runs from here, included, to there, excluded. */
  readonly fromNs: number;
  readonly toNs: number;
  /** When it started again under the same id, with counters at zero. */
  readonly restartNs: number | null;
}

/** Every process that ever runs: two of each service, and those of deploys. */
export const fleet: readonly Instance[] = makeFleet();

function makeFleet(): Instance[] {
  const instances: Instance[] = [];
  for (const [number, service] of services.entries()) {
    const lives: readonly (readonly [version: string, fromNs: number, toNs: number])[] =
      service.name === badDeploy.service
        ? [
            [service.version, 0, badDeploy.fromNs],
            [badDeploy.version, badDeploy.fromNs, badDeploy.toNs],
            [service.version, badDeploy.toNs, shopNs],
          ]
        : [[service.version, 0, shopNs]];
    for (const [life, [version, fromNs, toNs]] of lives.entries()) {
      for (const copy of [1, 2]) {
        instances.push({
          index: instances.length,
          service,
          version,
          id: `${service.name}-${version}-${life}${copy}`,
          host: `node-${1 + ((number * 2 + copy) % 6)}.shop.example`,
          fromNs,
          toNs,
          // Half of those that run all the time crash once.
          restartNs: lives.length === 1 && (number + copy) % 2 === 0 ? (5 + number * 9) * hourNs : null,
        });
      }
    }
  }
  return instances;
}

const byService = new Map(services.map(({ name }) => [name, fleet.filter(({ service }) => service.name === name)]));

/** A process of a service that runs at a time; `choice` is 0 to 1. */
export function instanceAt(service: string, timeNs: number, choice: number): Instance {
  const all = byService.get(service) as readonly Instance[];
  const life = all.length === 2 || timeNs < badDeploy.fromNs ? 0 : timeNs < badDeploy.toNs ? 1 : 2;
  return all[life * 2 + (choice < 0.5 ? 0 : 1)] as Instance;
}

/** Whether a process is of the bad deploy. */
export const isBad = (instance: Instance): boolean =>
  instance.service.name === badDeploy.service && instance.version === badDeploy.version;

/** How busy the shop is, around 1: little at night, most in the evening. */
export function busyness(timeNs: number): number {
  const hour = (timeNs / hourNs) % 24;
  return 1 + 0.6 * Math.sin(((hour - 10) / 24) * 2 * Math.PI) + 0.25 * Math.sin(((hour - 3) / 12) * 2 * Math.PI);
}

const steps = 8 * 24 * 60;
/** Share of the work that is done by the end of each minute. */
const done = makeDone();

function makeDone(): Float64Array {
  const sums = new Float64Array(steps + 1);
  for (let i = 0; i < steps; i++) {
    sums[i + 1] = (sums[i] as number) + busyness((i + 0.5) * 60e9);
  }
  const total = sums[steps] as number;
  return sums.map((sum) => sum / total);
}

/** When a share (0 to 1) of the shop's work is done. */
export function timeOfShare(share: number): number {
  let low = 0;
  let high = steps;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((done[middle] as number) <= share) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const from = done[low] as number;
  const width = (done[high] as number) - from;
  return Math.floor((low + (share - from) / width) * 60e9);
}
