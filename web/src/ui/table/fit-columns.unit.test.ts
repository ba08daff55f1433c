import { expect, it } from "vitest";

import { fitColumns } from "./fit-columns.js";
import { briefTime, type TableColumn } from "./table-columns.js";

const column = (id: string, width: number, o: Partial<TableColumn> = {}): TableColumn => ({
  id,
  title: id,
  width,
  text: () => null,
  ...o,
});
const time = column("time", 160, { brief: briefTime });
const columns = [time, column("service", 130), column("host", 200), column("message", 300, { keep: true })];
const fit = (
  room: number,
  o: { readonly resized?: Readonly<Record<string, number>>; readonly asked?: string } = {},
): Readonly<Record<string, number>> =>
  Object.fromEntries(fitColumns(columns, room, o.resized ?? {}, o.asked === undefined ? [] : [o.asked]));

it("leaves tables alone that have room for all", () => {
  expect(fit(800)).toEqual({ time: 160, service: 130, host: 200, message: 300 });
  expect(fitColumns([column("name", 200)], 200, {}, [])).toEqual(new Map([["name", 200]]));
});

it("takes a column for one that nobody has resized, whatever it is called", () => {
  expect(fitColumns([column("constructor", 200)], 300, {}, [])).toEqual(new Map([["constructor", 200]]));
});

it("shows less of a text at the end of a wide table, rather than scroll", () => {
  expect(fit(700)).toMatchObject({ host: 200, message: 210 });
  expect(fit(600)).toMatchObject({ host: 200, message: 160 });
  expect(fit(700, { resized: { message: 300 } })).toMatchObject({ message: 300 });
  const numbers = [column("a", 400), column("n", 300, { align: "right" })];
  expect(fitColumns(numbers, 600, {}, []).get("n")).toBe(300);
  expect([...fitColumns(numbers, 650, {}, []).values()]).toEqual([371, 278]);
  expect([...fitColumns(numbers, 650, { a: 400 }, []).values()]).toEqual([400, 300]);
  expect([...fitColumns(numbers, 680, { a: 400 }, []).values()]).toEqual([400, 280]);
  expect([...fitColumns([time, ...numbers], 840, {}, []).values()]).toEqual([160, 388, 291]);
});

it("keeps the first column and those to keep, then fills from the left, and leaves no room over", () => {
  expect(fit(326)).toEqual({ time: 104, message: 121, service: 100 });
  expect(fit(200)).toEqual({ time: 104, message: 96 });
  expect(fit(60)).toEqual({ time: 104 });
});

it("gives a column what it needs to be told apart, at the expense of others", () => {
  const metrics = [column("name", 280, { leastWidth: 240 }), column("kind", 130), column("unit", 80)];
  expect(fitColumns(metrics, 360, {}, [])).toEqual(
    new Map([
      ["name", 252],
      ["kind", 106],
    ]),
  );
  expect(fitColumns(metrics, 200, {}, [])).toEqual(new Map([["name", 200]]));
});

it("does not show a time that has no room even in brief", () => {
  const times = [column("name", 210), ...["minted", "used", "revoked"].map((id) => ({ ...time, id }))];
  expect([...fitColumns(times, 330, {}, []).keys()]).toEqual(["name", "minted", "used"]);
});

it("shows what somebody asked for, as wide as somebody made it", () => {
  expect(fit(300, { asked: "host" })).toEqual({ time: 104, host: 97, message: 98 });
  expect(fit(326, { resized: { message: 222 } })).toEqual({ time: 104, message: 222 });
});

it("writes times in brief", () => {
  expect(["2026-01-02 03:04:05.123", "03:04:05.123", "3 min ago"].map(briefTime.text)).toEqual([
    "01-02 03:04",
    "03:04:05",
    "3 min ago",
  ]);
});

it("shows a time in brief rather than less of a text beside it", () => {
  const audit = [time, column("did", 170, { keep: true }), column("to", 150, { keep: true })];
  expect([...fitColumns(audit, 430, {}, []).values()]).toEqual([104, 170, 150]);
  expect([...fitColumns(audit, 358, {}, []).values()]).toEqual([104, 131, 121]);
});
