/** Keys that were just minted: shown once, kept in this component's memory alone until they are dismissed or left. */
import { useBlocker } from "@tanstack/react-router";
import { type ReactElement, useEffect, useRef, useState } from "react";

import type { MintedAnalyticsKey, MintedIngestionKey } from "../../api/wire.js";
import { CopyButton } from "../../ui/controls/controls.js";
import { Banner } from "../../ui/states.js";
import css from "../admin.module.css";

/** As in routes, in the names of lists and in sentences. */
export type KeyKind = "ingestion" | "analytics";

/** An analytics key has no audience; `claimed`: minting made the audience the caller's. */
export type MintedKey = MintedAnalyticsKey & Partial<Pick<MintedIngestionKey, "audience" | "claimed">>;

/** The newest first; each stays until it is dismissed, since there is no way to see a key again. */
export function useKeyBanners(): { readonly banners: ReactElement[]; readonly show: (minted: MintedKey) => void } {
  const [keys, setKeys] = useState<readonly MintedKey[]>([]);
  // Whoever leaves the page by accident is asked first: there is no way to see the key again.
  useBlocker({
    shouldBlockFn: ({ current, next }) =>
      keys.length > 0 &&
      current.pathname !== next.pathname &&
      !window.confirm("Leave? A new key is still shown, and it is never shown again."),
    enableBeforeUnload: () => keys.length > 0,
  });
  return {
    banners: keys.map((one) => (
      <KeyBanner
        key={one.key_id}
        minted={one}
        onDismiss={() => setKeys((all) => all.filter(({ key_id: id }) => id !== one.key_id))}
      />
    )),
    show: (minted) => setKeys((all) => [minted, ...all]),
  };
}

function KeyBanner({
  minted,
  onDismiss,
}: {
  readonly minted: MintedKey;
  readonly onDismiss: () => void;
}): ReactElement {
  const { name, key, audience, claimed = false } = minted;
  const place = useRef<HTMLDivElement | null>(null);
  useEffect(() => place.current?.focus(), []);
  return (
    <div ref={place} tabIndex={-1} role="group" aria-label="New key">
      <Banner kind="good" title={`The key “${name}” is minted`} onDismiss={onDismiss}>
        {claimed ? <p>The audience {audience} is yours now: you may read it and mint further keys for it.</p> : null}
        <p>Copy it now. It is shown this once and is kept nowhere.</p>
        <div className={css.key}>
          <code>{key}</code>
          <CopyButton text={key} label="Copy the key" words="Copy" />
        </div>
        <p className={css.muted}>
          {audience === undefined ? (
            <>
              Clients send it as <code>Authorization: Bearer …</code>. It reads nothing before an audience is granted to
              it.
            </>
          ) : (
            <>
              What is sent with it belongs to the audience {audience}. Exporters read it from{" "}
              <code>OTEL_EXPORTER_OTLP_HEADERS</code>.
            </>
          )}
        </p>
      </Banner>
    </div>
  );
}
