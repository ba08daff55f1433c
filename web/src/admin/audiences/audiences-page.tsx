/**
 * Audiences: what the caller may read and mint for, and the keys that are theirs. Administrators see every audience with
 * its grants and keys.
 */
import { Link } from "@tanstack/react-router";
import { ShieldCheck } from "lucide-react";
import { type ReactElement, useMemo } from "react";

import { useConfig, useMyAudiences } from "../../api/routes.js";
import { usePerson } from "../../api/session.js";
import type { Grant, IngestionKey } from "../../api/wire.js";
import { formatNumber } from "../../ui/format.js";
import { Banner } from "../../ui/states.js";
import type { TableColumn } from "../../ui/table/table-columns.js";
import css from "../admin.module.css";
import { useList } from "../api.js";
import { AdminError } from "../form.js";
import { type MintedKey, useKeyBanners } from "../keys/key-banner.js";
import { MintIngestionForm } from "../keys/mint-form.js";
import { Facts, ListPage, numberColumn, textColumn } from "../list-page.js";
import { type Audience, audiencesOf } from "./audiences.js";
import { AddGrantForm, GrantList, memberWords } from "./grants.js";
import { OwnKeys, useOwnKeys } from "./own-keys.js";

const idOf = ({ name }: Audience): string => name;

export default function AudiencesPage(): ReactElement {
  const { isAdmin } = usePerson();
  const mine = useMyAudiences();
  const grants = useList<Grant>(["grants"], "api/audience-grants", { enabled: isAdmin });
  const keys = useList<IngestionKey>(["ingestion-keys"], "api/ingestion-api-keys", {
    query: { include_usage: true },
    enabled: isAdmin,
  });
  const own = useOwnKeys();
  const config = useConfig();
  const { banners, show } = useKeyBanners();
  const { data } = mine;
  const rows = useMemo(
    () =>
      data === undefined || (isAdmin && grants.data === undefined)
        ? undefined
        : audiencesOf(data, grants.data ?? null, keys.data ?? null),
    [data, isAdmin, grants.data, keys.data],
  );
  const error = mine.error ?? grants.error;
  const mayMint = data !== undefined && (isAdmin || data.self_service) && (data.mint.length > 0 || data.email !== null);
  const takeKey = (key: MintedKey, close: () => void): void => {
    show(key);
    close();
  };
  return (
    <ListPage
      noun="audiences"
      intro="Everything that is received belongs to an audience, which its key names. Who may read it and who may mint keys that write to it is granted. The first key for a name that nobody uses makes that audience yours."
      query={{
        data: rows,
        error,
        isFetching: mine.isFetching || grants.isFetching,
        refetch: async () => {
          await Promise.all([mine.refetch(), own.refetch(), ...(isAdmin ? [grants.refetch(), keys.refetch()] : [])]);
        },
      }}
      idOf={idOf}
      columns={isAdmin ? adminColumns : ownColumns}
      notes={
        <>
          {banners}
          {keys.error === null ? null : (
            <AdminError
              error={keys.error}
              title={`The live keys could not be counted${keys.data === undefined ? "" : " anew"}`}
              onRetry={() => void keys.refetch()}
            />
          )}
          {data !== undefined && !isAdmin && !data.self_service ? (
            <Banner>Keys are minted by administrators on this server. Ask a member of the group admins for one.</Banner>
          ) : null}
          {isAdmin && data !== undefined && data.read.length === 0 ? (
            <Banner>Administrators read nothing by that alone: grant yourself what you want to read.</Banner>
          ) : null}
        </>
      }
      empty={{
        icon: <ShieldCheck />,
        title: "You may read no audience yet",
        text: mayMint
          ? "Mint a key for a name of your own: the audience is yours then."
          : "Ask a member of the group admins to grant you one.",
      }}
      add={
        mayMint
          ? {
              label: "Mint a key",
              title: "Mint a key, or claim an audience",
              form: (close) => <MintIngestionForm onCancel={close} onMinted={(key) => takeKey(key, close)} />,
            }
          : null
      }
      panel={(row, close) => ({
        title: row.name,
        body: (
          <AudienceDetails
            key={row.name}
            row={row}
            byDefault={config.data?.default_audience === row.name}
            canMint={mayMint && row.mint}
            onMinted={(key) => takeKey(key, close)}
            known={grants.data ?? []}
          />
        ),
      })}
      foot={<OwnKeys own={own} />}
    />
  );
}

const yesNo = (yes: boolean): string => (yes ? "yes" : "no");

function ownColumns(rows: readonly Audience[]): readonly TableColumn[] {
  return [
    textColumn(rows, "name", "Audience", ({ name }) => name, { width: 200 }),
    textColumn(rows, "read", "You read it", ({ read }) => yesNo(read), { width: 110 }),
    textColumn(rows, "mint", "You mint for it", ({ mint }) => yesNo(mint), { width: 120 }),
  ];
}

function adminColumns(rows: readonly Audience[]): readonly TableColumn[] {
  return [
    ...ownColumns(rows),
    numberColumn(rows, "keys", "Live keys", ({ liveKeys }) => liveKeys),
    textColumn(rows, "readers", "Read by", ({ grants }) => membersOf(grants, "read"), { width: 280 }),
    textColumn(rows, "owners", "Minted for by", ({ grants }) => membersOf(grants, "mint"), { width: 240 }),
  ];
}

function membersOf(grants: readonly Grant[] | null, kind: Grant["kind"]): string | null {
  const members = (grants ?? []).filter((grant) => grant.kind === kind).map(({ member }) => memberWords(member));
  return members.length === 0 ? null : members.join(", ");
}

function AudienceDetails({
  row,
  byDefault,
  canMint,
  onMinted,
  known,
}: {
  readonly row: Audience;
  /** Keys that name no audience are for it. */
  readonly byDefault: boolean;
  readonly canMint: boolean;
  readonly onMinted: (key: MintedKey) => void;
  readonly known: readonly Grant[];
}): ReactElement {
  const { name, grants } = row;
  const members = useMemo(() => [...new Set(known.map(({ member }) => member))].toSorted(), [known]);
  return (
    <>
      <Facts
        facts={[
          [
            "You",
            `${row.read ? "may read it" : "may not read it"}, ${row.mint ? "may mint for it" : "may not mint for it"}`,
          ],
          ...(row.liveKeys === null ? [] : ([["Live keys", formatNumber(row.liveKeys)]] as const)),
          ...(byDefault ? ([["By default", "Keys that name no audience write to it."]] as const) : []),
        ]}
      />
      <p className={css.actions}>
        {row.liveKeys === null ? null : (
          <Link to="/admin/ingestion-keys" search={{ q: name }}>
            Its keys
          </Link>
        )}
        <Link to="/admin/usage" search={{ of: name }}>
          Its use over time
        </Link>
      </p>
      {grants === null ? null : (
        <>
          <section className={css.section} aria-label="Who may read it">
            <h3>Who may read it</h3>
            <GrantList
              label={`Readers of ${name}`}
              grants={grants.filter(({ kind }) => kind === "read")}
              shows="member"
              none="Nobody: what is in it is kept and cannot be seen."
            />
          </section>
          <section className={css.section} aria-label="Who may mint for it">
            <h3>Who owns it: may mint keys for it</h3>
            <GrantList
              label={`Minters of ${name}`}
              grants={grants.filter(({ kind }) => kind === "mint")}
              shows="member"
              none="Nobody, administrators included: grant it to mint a key."
            />
          </section>
          <section className={css.section} aria-label="Grant it">
            <h3>Grant it</h3>
            <AddGrantForm audience={name} members={members} />
          </section>
        </>
      )}
      {canMint ? (
        <section className={css.section} aria-label="Mint a key for it">
          <h3>Mint a key for it</h3>
          <MintIngestionForm audience={name} onMinted={onMinted} />
        </section>
      ) : null}
    </>
  );
}
