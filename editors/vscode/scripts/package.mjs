// Makes gradlint-VERSION.vsix. The same sources give the same bytes on every machine: files go in by name, with one
// fixed time, and uncompressed, as compressors differ between versions of Node.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { zip } from "./zip.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const read = (name) => readFileSync(join(root, name));
const manifest = JSON.parse(read("package.json").toString("utf8"));

const TYPES = {
  js: "application/javascript",
  json: "application/json",
  md: "text/markdown",
  png: "image/png",
  txt: "text/plain",
  vsixmanifest: "text/xml",
};

const escaped = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

function contentTypes() {
  const types = Object.entries(TYPES).map(([ending, type]) => `<Default Extension=".${ending}" ContentType="${type}"/>`);
  return `<?xml version="1.0" encoding="utf-8"?>\n<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">${types.join("")}</Types>\n`;
}

function vsixManifest() {
  const property = (id, value) => `<Property Id="Microsoft.VisualStudio.${id}" Value="${escaped(value)}"/>`;
  const asset = (type, path) => `<Asset Type="Microsoft.VisualStudio.${type}" Path="extension/${path}" Addressable="true"/>`;
  const { name, version, publisher, displayName, description, keywords, categories, engines } = manifest;
  return `<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011" xmlns:d="http://schemas.microsoft.com/developer/vsx-schema-design/2011">
  <Metadata>
    <Identity Language="en-US" Id="${name}" Version="${version}" Publisher="${publisher}"/>
    <DisplayName>${escaped(displayName)}</DisplayName>
    <Description xml:space="preserve">${escaped(description)}</Description>
    <Tags>${escaped(keywords.join(","))}</Tags>
    <Categories>${escaped(categories.join(","))}</Categories>
    <GalleryFlags>Public</GalleryFlags>
    <Properties>
      ${property("Code.Engine", engines.vscode)}
      ${property("Code.ExtensionDependencies", "")}
      ${property("Code.ExtensionPack", "")}
      ${property("Code.ExtensionKind", manifest.extensionKind.join(","))}
      ${property("Code.LocalizedLanguages", "")}
      ${property("Code.ExecutesCode", "true")}
      ${property("Services.Links.Source", manifest.repository.url)}
      ${property("Services.Links.Getstarted", manifest.repository.url)}
      ${property("Services.Links.GitHub", manifest.repository.url)}
      ${property("Services.Links.Support", manifest.bugs.url)}
      ${property("Services.Links.Learn", manifest.homepage)}
      ${property("Services.GitHubFlavoredMarkdown", "true")}
      ${property("Services.Content.Pricing", "Free")}
    </Properties>
    <License>extension/LICENSE.txt</License>
    <Icon>extension/icon.png</Icon>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets>
    ${asset("Code.Manifest", "package.json")}
    ${asset("Services.Content.Details", "README.md")}
    ${asset("Services.Content.Changelog", "CHANGELOG.md")}
    ${asset("Services.Content.License", "LICENSE.txt")}
    ${asset("Services.Icons.Default", "icon.png")}
  </Assets>
</PackageManifest>
`;
}

/** The licences of the packages that esbuild has put into the bundle. */
function notices() {
  const inputs = JSON.parse(read("dist/inputs.json").toString("utf8"));
  const packages = new Set(inputs.flatMap((file) => file.match(/^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//)?.[1] ?? []));
  const texts = [...packages].sort().map((folder) => {
    const { name, version, license } = JSON.parse(read(`${folder}/package.json`).toString("utf8"));
    const file = readdirSync(join(root, folder)).find((entry) => /^licen[cs]e/i.test(entry));
    if (file === undefined) {
      throw new Error(`${name} has no licence file`);
    }
    const text = read(`${folder}/${file}`).toString("utf8").replace(/\r\n/g, "\n").trim();
    return `${name} ${version} (${typeof license === "string" ? license : "see below"})\n\n${text}\n`;
  });
  const line = `\n${"-".repeat(80)}\n\n`;
  return `The extension contains these packages.\n${line}${texts.join(line)}`;
}

/** What VS Code reads; the parts for those who build it stay out. */
function shippedManifest() {
  const { scripts, dependencies, devDependencies, private: _, ...rest } = manifest;
  return `${JSON.stringify(rest, null, 2)}\n`;
}

const files = [
  ["[Content_Types].xml", contentTypes()],
  ["extension.vsixmanifest", vsixManifest()],
  ["extension/CHANGELOG.md", read("CHANGELOG.md")],
  ["extension/LICENSE.txt", read("LICENSE")],
  ["extension/README.md", read("README.md")],
  ["extension/ThirdPartyNotices.txt", notices()],
  ["extension/dist/extension.js", read("dist/extension.js")],
  ["extension/icon.png", read("icon.png")],
  ["extension/package.json", shippedManifest()],
].map(([name, content]) => [name, Buffer.from(content)]);

const target = join(root, `${manifest.name}-${manifest.version}.vsix`);
const archive = zip(files);
writeFileSync(target, archive);
console.log(`${target}: ${files.length} files, ${archive.length} bytes`);
